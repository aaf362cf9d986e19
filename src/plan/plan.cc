#include "src/plan/plan.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/format.h"
#include "src/plan/family.h"

namespace sinter {

namespace {

constexpr size_t kShownSchedules = 4;  // of a candidate

// What is executed of a kernel: its code and where its operands lie.
void WriteSpec(const KernelSpec& spec, ByteWriter& w) {
  w.U8(spec.family->number());
  w.U8(spec.batch_invariant);
  w.Bytes(ScheduleBytes(spec));
  w.U64(spec.workspace_flags_offset);
  spec.family->WriteExecuted(spec, w);
}

}  // namespace

bool KernelSpec::operator==(const KernelSpec& o) const {
  const auto fields = [](const KernelSpec& s) {
    return std::tie(s.family, s.workspace_flags_offset, s.constant_rows, s.batch_invariant);
  };
  return fields(*this) == fields(o) && family->Equal(*this, o);
}

std::string ProblemText(const KernelSpec& spec) { return spec.family->ProblemText(spec); }

std::string ScheduleText(const KernelSpec& spec) { return spec.family->ScheduleText(spec); }

std::string ScheduleBytes(const KernelSpec& spec) { return spec.family->ScheduleBytes(spec); }

std::string BodyText(const Chain& body) {
  return absl::StrCat(Counted(body.ops().size() - static_cast<size_t>(body.num_inputs()), "op"),
                      ", ", Counted(static_cast<uint64_t>(body.num_inputs()), "input"), ", ",
                      Counted(static_cast<uint64_t>(body.num_outputs()), "output"));
}

double Plan::PredictedUs() const { return PredictedUsOf(kernels); }

bool Plan::UsesM() const {
  return std::any_of(kernels.begin(), kernels.end(), [](const PlannedKernel& kernel) {
    return kernel.spec.family->UsesM(kernel.spec);
  });
}

bool Plan::IsStandIn() const {
  return !kernels.empty() && kernels.front().spec.family->IsStandIn();
}

bool Plan::IsBatchInvariant() const {
  return !kernels.empty() && std::all_of(kernels.begin(), kernels.end(), [](const auto& kernel) {
    return kernel.spec.batch_invariant;
  });
}

Digest Plan::PlanDigest() const {
  ByteWriter w;
  w.Raw(IsStandIn() ? "sinter stand-in 2" : "sinter plan 3");
  w.I64(bucket);
  w.U64(workspace_bytes);
  w.U64(kernels.size());
  for (const PlannedKernel& kernel : kernels) WriteSpec(kernel.spec, w);
  return Sha256(w.str());
}

std::string NameInList(const Plan& plan) {
  std::vector<std::pair<std::string, int>> schedules;  // in the order of their first kernel
  std::map<std::string, size_t> known;
  for (const PlannedKernel& kernel : plan.kernels) {
    const std::string text = ScheduleText(kernel.spec);
    const auto [at, fresh] = known.try_emplace(text, schedules.size());
    if (fresh) schedules.emplace_back(text, 0);
    ++schedules[at->second].second;
  }
  std::string name = absl::StrCat(plan.IsStandIn() ? "stand-ins, " : "",
                                  Counted(plan.kernels.size(), "kernel"), ":");
  for (size_t i = 0; i < std::min(schedules.size(), kShownSchedules); i++) {
    const auto& [text, count] = schedules[i];
    absl::StrAppend(&name, count > 1 ? absl::StrCat(" ", count, " x") : "", " [", text, "]");
  }
  if (schedules.size() > kShownSchedules) {
    absl::StrAppend(&name, " and ", Counted(schedules.size() - kShownSchedules, "other schedule"));
  }
  return name;
}

std::string Plan::ToText() const {
  std::string out = FormatText("%s, %d kernels, %.2f us, digest %s%s\n", std::string(name()),
                               static_cast<int>(kernels.size()), PredictedUs(), PlanDigest().Hex(),
                               IsBatchInvariant() ? "  batch-invariant" : "");
  for (const PlannedKernel& kernel : kernels) {
    absl::StrAppend(&out, "  ", ProblemText(kernel.spec), " [", ScheduleText(kernel.spec), "] ",
                    FormatText("%.2f us\n", kernel.prediction.total_us));
  }
  return absl::StrCat(out, note.empty() ? "" : "  ", note, note.empty() ? "" : "\n");
}

}  // namespace sinter
