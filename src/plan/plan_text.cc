#include "src/plan/plan_text.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/printable.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

constexpr size_t kShownRunnersUp = 3;
constexpr size_t kShownSchedules = 4;  // of a candidate

std::string MeasuredText(double us) {
  return us > 0 ? absl::StrFormat(", measured %.2f us", us) : "";
}

void AppendKernel(size_t index, const PlannedKernel& kernel, std::string* out) {
  const Prediction& p = kernel.prediction;
  absl::StrAppend(out, KernelHeadText(index, kernel));
  absl::StrAppendFormat(out, "  predicted  %.2f us, bound by %s%s\n", p.total_us,
                        p.bound.empty() ? "nothing" : p.bound, MeasuredText(kernel.measured_us));
  absl::StrAppendFormat(
      out,
      "  levels us  hbm %.2f l2 %.2f intake %.2f shared %.2f dsm %.2f tensor %.2f fixed %.2f\n",
      p.hbm_us, p.l2_us, p.intake_us, p.shared_us, p.dsm_us, p.tensor_us, p.fixed_us);
  absl::StrAppendFormat(out, "  bytes MB   hbm %.2f l2 %.2f dsm %.2f\n", p.hbm_bytes / 1e6,
                        p.l2_bytes / 1e6, p.dsm_bytes / 1e6);
}

}  // namespace

std::string PlanHeadText(const Plan& plan) {
  const size_t kernels = plan.kernels.size();
  return absl::StrFormat(
      "plan %s  %s  %d kernel%s  predicted %.2f us  workspace %d B%s\ndigest %s\n", plan.name(),
      plan.UsesM() ? absl::StrCat("m<=", plan.bucket) : "without M", kernels,
      kernels == 1 ? "" : "s", plan.PredictedUs(), plan.workspace_bytes,
      plan.IsBatchInvariant() ? "  batch-invariant" : "", plan.PlanDigest().Hex());
}

std::string KernelHeadText(size_t index, const PlannedKernel& kernel) {
  const KernelSpec& spec = kernel.spec;
  std::string out =
      absl::StrFormat("kernel %d  %s  %s\n", index, NameOf(spec.family), ProblemText(spec));
  absl::StrAppendFormat(&out, "  schedule   %s\n", ScheduleText(spec));
  return absl::StrCat(out, spec.family->LaunchText(spec));
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
  std::string name(plan.name());
  if (plan.kernels.size() > 2) absl::StrAppend(&name, ", ", plan.kernels.size(), " kernels:");
  for (size_t i = 0; i < std::min(schedules.size(), kShownSchedules); i++) {
    const auto& [text, count] = schedules[i];
    absl::StrAppend(&name, count > 1 ? absl::StrCat(" ", count, " x") : "", " [", text, "]");
  }
  if (schedules.size() > kShownSchedules) {
    absl::StrAppend(&name, " and ", schedules.size() - kShownSchedules, " other schedules");
  }
  return name;
}

double MeasuredUs(const Plan& plan) {
  double total = 0;
  for (const PlannedKernel& kernel : plan.kernels) {
    if (!(kernel.measured_us > 0)) return 0;
    total += kernel.measured_us;
  }
  return total;
}

std::string Plan::ToText() const {
  std::string out = PlanHeadText(*this);
  for (size_t i = 0; i < kernels.size(); i++) AppendKernel(i, kernels[i], &out);
  if (!note.empty()) absl::StrAppend(&out, "note       ", Printable(note), "\n");
  const size_t shown = std::min(runners_up.size(), kShownRunnersUp);
  for (size_t i = 0; i < shown; i++) {
    const Candidate& c = runners_up[i];
    absl::StrAppendFormat(&out, "runner-up  %.2f us  %s: %s\n", c.predicted_us, c.name, c.why_not);
  }
  if (shown < runners_up.size()) {
    absl::StrAppendFormat(&out, "runners-up %d more\n", runners_up.size() - shown);
  }
  return out;
}

}  // namespace sinter
