#include <map>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/base/codec.h"
#include "src/base/compile_request.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/engine/keys.h"
#include "src/engine/measured_choice.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

std::string InWords(const MeasuredChoice& choice) {
  return FormatText("measured %.2f us on %s%s", choice.measured_us, choice.device,
                    choice.untuned_us > 0
                        ? FormatText(", the predicted choice %.2f us then", choice.untuned_us)
                        : std::string());
}

void PutInFront(Plan tuned, const MeasuredChoice& choice, FusionResult* result) {
  const Digest digest = tuned.PlanDigest();
  tuned.note = absl::StrCat("tuned: ", InWords(choice));
  tuned.runners_up = std::move(result->chosen.runners_up);
  result->chosen.runners_up.clear();
  if (tuned.kernels.size() == 1) tuned.kernels[0].measured_us = choice.measured_us;
  if (result->chosen.PlanDigest() != digest) {
    tuned.runners_up.insert(tuned.runners_up.begin(),
                            {NameInList(result->chosen), result->chosen.PredictedUs(),
                             std::string(kTunedAway), result->chosen.PlanDigest()});
    std::vector<Plan> others;
    others.push_back(std::move(result->chosen));
    for (Plan& plan : result->alternatives) {
      if (plan.PlanDigest() != digest) others.push_back(std::move(plan));
    }
    result->alternatives = std::move(others);
  }
  result->chosen = std::move(tuned);
}

// Lines for the readers of a tuning set.
std::string About(const Plan& plan, const MeasuredChoice& choice, const DeviceModel& model) {
  std::string text = absl::StrCat("on ", model.name, " ", model.arch, " ", model.sm_count,
                                  " SMs\nplan ", plan.name(), "\n");
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    absl::StrAppend(&text, "schedule ", ScheduleText(plan.kernels[i].spec), "\nkernel ",
                    choice.kernels[i].Hex(), "\n");
  }
  absl::StrAppend(&text, "predicted_us ", plan.PredictedUs(), "\nmeasured_us ", choice.measured_us,
                  "\nuntuned_us ", choice.untuned_us, "\ndevice ", choice.device, "\ndriver ",
                  choice.driver, "\nseed ", choice.seed, "\nerror ", choice.error, "\n");
  return text;
}

absl::StatusOr<std::vector<Digest>> IdentitiesOf(const Plan& plan, const EngineCore& core) {
  std::vector<Digest> identities;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const KernelSpec& spec = plan.kernels[i].spec;
    const absl::StatusOr<GeneratedKernel> generated = core.hooks.generate(spec, core.ports.model);
    if (!generated.ok()) return Annotate(generated.status(), absl::StrCat("kernel ", i));
    identities.push_back(KernelIdentity(spec, *generated));
  }
  return identities;
}

// Position after the literal that begins at `at`. A digit separator does not begin a literal.
size_t EndOfLiteral(absl::string_view text, size_t at) {
  const char quote = text[at];
  if (quote == '\'' && at > 0 && absl::ascii_isalnum(static_cast<unsigned char>(text[at - 1]))) {
    return at + 1;
  }
  for (size_t i = at + 1; i < text.size() && text[i] != '\n'; ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      return i + 1;
    }
  }
  return at + 1;
}

std::string WithoutComments(absl::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size();) {
    const absl::string_view two = text.substr(at, 2);
    size_t end = at + 1;
    if (two == "//" || two == "/*") {
      const bool line = two == "//";
      end = text.find(line ? "\n" : "*/", at + 2);
      at = end == absl::string_view::npos ? text.size() : end + (line ? 0 : 2);
      plain.push_back(' ');
      continue;
    }
    if (text[at] == '"' || text[at] == '\'') end = EndOfLiteral(text, at);
    absl::StrAppend(&plain, text.substr(at, end - at));
    at = end;
  }
  return plain;
}

using HeaderMap = std::map<absl::string_view, absl::string_view>;  // name, bytes

// Appends to `read` what the compiler reads of `text`; each header goes where it is first included.
// A header that was read has no bytes left in `unread`.
void AppendRead(absl::string_view text, HeaderMap* unread, std::string* read) {
  for (absl::string_view line : absl::StrSplit(WithoutComments(text), '\n')) {
    line = absl::StripAsciiWhitespace(line);
    const auto header = unread->find(IncludedHeader(line));
    if (header != unread->end()) {
      const absl::string_view bytes = header->second;
      header->second = "";
      AppendRead(bytes, unread, read);
    } else if (!line.empty() && line != "#pragma once") {
      absl::StrAppend(read, line, "\n");
    }
  }
}

std::string TextRead(const CompileRequest& request) {
  HeaderMap all;
  for (const auto& header : request.headers) all[header.first] = header.second;
  std::string read;
  AppendRead(request.source, &all, &read);
  return read;
}

}  // namespace

TuningKey TuningKeyOf(const PlanRequest& request, const EngineCore& core) {
  PlanRequest unmeasured = request;
  unmeasured.measured = false;
  TuningKey key;
  key.chain = request.chain().CanonicalDigest();
  key.bucket = request.bucket;
  key.chip = ChipDigest(core.ports.model);
  key.flags = FlagsOf(unmeasured);
  return key;
}

absl::StatusOr<TuningEntry> MakeTuningEntry(const PlanRequest& request, const EngineCore& core,
                                            FusionResult ranked, Plan taken,
                                            MeasuredChoice choice) {
  SINTER_ASSIGN_OR_RETURN(choice.kernels, IdentitiesOf(taken, core));
  choice.device = Printable(core.ports.device_name);
  choice.driver = Printable(core.ports.driver_name);
  TuningEntry entry;
  entry.key = TuningKeyOf(request, core);
  entry.about = About(taken, choice, core.ports.model);
  PutInFront(std::move(taken), choice, &ranked);
  PlanRecord record = MakePlanRecord(std::move(ranked));
  record.chain = entry.key.chain;
  record.bucket = entry.key.bucket;
  record.tuning = InWords(choice);
  record.choice = std::move(choice);
  for (PlanVariant& variant : record.variants) {
    variant.sources.resize(variant.decisions.kernels.size());
  }
  entry.record = EncodePlanRecord(record);
  return entry;
}

absl::Status CheckKernels(const PlanRecord& record, const EngineCore& core) {
  const Plan& plan = record.variants.front().plan;
  SINTER_ASSIGN_OR_RETURN(const std::vector<Digest> identities, IdentitiesOf(plan, core));
  for (size_t i = 0; i < identities.size(); ++i) {
    if (identities[i] != record.choice->kernels[i]) {
      return FailedPrecondition("kernel ", i, " changed since it was measured");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PlanRecord> UsableChoice(absl::string_view bytes, const PlanRequest& request,
                                        const BuildControl& control, const EngineCore& core) {
  SINTER_ASSIGN_OR_RETURN(PlanRecord record, DecodePlanRecord(bytes, LimitsOf(request, &control)));
  if (!record.choice.has_value()) return FailedPrecondition("its plan was not measured");
  SINTER_RETURN_IF_ERROR(CompletePlanRecord(request, core.ports.model, core, control, &record));
  SINTER_RETURN_IF_ERROR(CheckKernels(record, core));
  return record;
}

std::string WhySetIsPassedOver(const PlanRequest& request, EngineCore& core) {
  if (core.ports.tuning == nullptr) return "";
  const TuningKey key = TuningKeyOf(request, core);
  if (core.ports.tuning->Find(key) == nullptr) return "no entry for this plan";
  const auto refused = core.refused_choices.Lock();
  const auto found = refused->find(key);
  return found == refused->end() ? "" : absl::StrCat("entry not used: ", found->second);
}

Digest KernelIdentity(const KernelSpec& spec, const GeneratedKernel& kernel) {
  ByteWriter w;
  w.Bytes("sinter kernel 2");
  w.Bytes(spec.family->TextsOf(spec).identity);
  w.Bytes(ScheduleText(spec));
  w.Bytes(TextRead(kernel.request));
  w.Bytes(kernel.request.arch);
  w.U64(kernel.request.options.size());
  for (const std::string& option : kernel.request.options) w.Bytes(option);
  w.Bytes(kernel.recipe.Encode());
  return Sha256(w.str());
}

}  // namespace sinter
