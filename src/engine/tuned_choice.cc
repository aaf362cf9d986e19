#include <algorithm>
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

absl::Status Unusable(absl::string_view why) { return FailedPrecondition(why); }

// The first plan of the ranking for which `wanted` holds; null when there is none.
template <typename Wanted>
const Plan* FindPlan(const FusionResult& planned, Wanted&& wanted) {
  if (wanted(planned.chosen)) return &planned.chosen;
  const auto found = std::find_if(planned.alternatives.begin(), planned.alternatives.end(), wanted);
  return found == planned.alternatives.end() ? nullptr : &*found;
}

absl::Status CheckKernels(const TuningEntry& entry, const Plan& plan, const EngineCore& core) {
  if (entry.kernels.size() != plan.kernels.size()) {
    return Unusable(absl::StrCat("it names ", Counted(entry.kernels.size(), "kernel"), " of ",
                                 plan.kernels.size()));
  }
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const KernelSpec& spec = plan.kernels[i].spec;
    const absl::StatusOr<GeneratedKernel> generated = core.hooks.generate(spec, core.ports.model);
    if (!generated.ok()) {
      return Unusable(absl::StrCat("kernel ", i, ": ", generated.status().message()));
    }
    if (KernelIdentity(spec, *generated) != entry.kernels[i]) {
      return Unusable(absl::StrCat("kernel ", i, " changed since it was measured"));
    }
  }
  return absl::OkStatus();
}

std::string InWords(const TuningEntry& entry) {
  return FormatText("measured %.2f us on %s%s", entry.measured_us, entry.device,
                    entry.untuned_us > 0
                        ? FormatText(", the predicted choice %.2f us then", entry.untuned_us)
                        : std::string());
}

void PutInFront(Plan tuned, const TuningEntry& entry, FusionResult* result) {
  const Digest digest = tuned.PlanDigest();
  tuned.note = absl::StrCat("tuned: ", InWords(entry));
  if (result->chosen.PlanDigest() == digest) {
    tuned.runners_up = std::move(result->chosen.runners_up);
    result->chosen = std::move(tuned);
    return;
  }
  tuned.runners_up = result->chosen.runners_up;
  tuned.runners_up.insert(tuned.runners_up.begin(),
                          {NameInList(result->chosen), result->chosen.PredictedUs(),
                           std::string(kTunedAway), result->chosen.PlanDigest()});
  result->chosen.runners_up.clear();
  std::vector<Plan> others;
  others.push_back(std::move(result->chosen));
  for (Plan& plan : result->alternatives) {
    if (plan.PlanDigest() != digest) others.push_back(std::move(plan));
  }
  result->alternatives = std::move(others);
  result->chosen = std::move(tuned);
}

// Position behind the literal that begins at `at`. A digit separator begins none.
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
  TuningKey key;
  key.chain = request.chain().CanonicalDigest();
  key.bucket = request.bucket;
  key.chip = ChipDigest(core.ports.model);
  key.flags = FlagsOf(request);
  return key;
}

absl::StatusOr<TuningEntry> MakeTuningEntry(const PlanRequest& request, const EngineCore& core,
                                            const Plan& plan) {
  TuningEntry entry;
  entry.key = TuningKeyOf(request, core);
  const DeviceModel& model = core.ports.model;
  entry.chip = absl::StrCat(model.name, " ", model.arch, " ", model.sm_count, " SMs");
  entry.plan = std::string(plan.name());
  entry.predicted_us = plan.PredictedUs();
  entry.device = core.ports.device_name;
  entry.driver = core.ports.driver_name;
  Plan bare = plan;
  bare.note.clear();
  bare.runners_up.clear();
  for (PlannedKernel& kernel : bare.kernels) {
    kernel.kernel_digest = Digest();
    SINTER_ASSIGN_OR_RETURN(const GeneratedKernel generated,
                            core.hooks.generate(kernel.spec, model));
    entry.kernels.push_back(KernelIdentity(kernel.spec, generated));
    entry.schedules.push_back(ScheduleText(kernel.spec));
  }
  entry.bytes = EncodeDecisions(DecisionsOf(bare));
  return entry;
}

absl::StatusOr<Plan> AssembleEntry(const TuningEntry& entry, const PlanRequest& request,
                                   const EngineCore& core) {
  const absl::StatusOr<Decisions> decisions = DecodeDecisions(entry.bytes);
  if (!decisions.ok()) return Unusable(decisions.status().message());
  absl::StatusOr<AssembledPlan> assembled =
      core.AssemblyOf(request.planned(), request.bucket, core.ports.model,
                      {request.batch_invariant, request.allow_cooperative})(*decisions);
  if (!assembled.ok()) return request.form->InCallersNumbers(assembled.status());
  return std::move(assembled->plan);
}

absl::StatusOr<Plan> PlanOfEntry(const TuningEntry& entry, const PlanRequest& request,
                                 const FusionResult& planned, const EngineCore& core) {
  absl::StatusOr<Plan> plan = AssembleEntry(entry, request, core);
  if (!plan.ok()) return plan;
  SINTER_RETURN_IF_ERROR(CheckKernels(entry, *plan, core));
  const Digest digest = plan->PlanDigest();
  const Plan* same = FindPlan(planned, [&](const Plan& p) { return p.PlanDigest() == digest; });
  Plan result = same != nullptr ? *same : *std::move(plan);
  result.runners_up.clear();
  if (result.kernels.size() == 1) result.kernels[0].measured_us = entry.measured_us;
  return result;
}

TuningOutcome ApplyEntry(const TuningEntry& entry, const PlanRequest& request, EngineCore& core,
                         FusionResult* result) {
  absl::StatusOr<Plan> tuned = PlanOfEntry(entry, request, *result, core);
  if (!tuned.ok()) {
    core.counters.tuned_refused.fetch_add(1, std::memory_order_relaxed);
    core.log.Log(LogLevel::kWarn,
                 absl::StrCat("the tuning entry for chain ",
                              request.chain().CanonicalDigest().Hex().substr(0, 16), " at m <= ",
                              request.bucket, " is not used: ", tuned.status().message()));
    return {false, absl::StrCat("entry not used: ", tuned.status().message())};
  }
  core.counters.tuned_plans.fetch_add(1, std::memory_order_relaxed);
  PutInFront(*std::move(tuned), entry, result);
  return {true, InWords(entry)};
}

TuningOutcome ApplyTuning(const PlanRequest& request, EngineCore& core, FusionResult* result) {
  if (core.ports.tuning == nullptr) return {};
  const TuningEntry* entry = core.ports.tuning->Find(TuningKeyOf(request, core));
  if (entry == nullptr) return {false, "no entry for this plan"};
  return ApplyEntry(*entry, request, core, result);
}

Digest KernelIdentity(const KernelSpec& spec, const GeneratedKernel& kernel) {
  ByteWriter w;
  w.Bytes("sinter kernel 2");
  w.Bytes(spec.family->IdentityText(spec));
  w.Bytes(ScheduleText(spec));
  w.Bytes(TextRead(kernel.request));
  w.Bytes(kernel.request.arch);
  w.U64(kernel.request.options.size());
  for (const std::string& option : kernel.request.options) w.Bytes(option);
  w.Bytes(kernel.recipe.Encode());
  return Sha256(w.str());
}

}  // namespace sinter
