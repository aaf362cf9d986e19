#include "src/plan/plan_text.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "src/base/launch_recipe.h"
#include "src/base/printable.h"
#include "src/draw/units.h"
#include "src/plan/plan.h"

namespace sinter {
namespace {

constexpr size_t kShownRunnersUp = 3;
constexpr size_t kShownSchedules = 4;  // of a candidate

std::string BindingText(const OperandBinding& b) {
  std::string text(NameOf(b.role));
  absl::StrAppend(&text, "=", b.buffer == kWorkspaceBuffer ? "ws" : absl::StrCat("#", b.buffer));
  if (b.offset_bytes > 0) absl::StrAppend(&text, "+", b.offset_bytes);
  if (b.row_stride > 0) absl::StrAppend(&text, "/", b.row_stride);
  return text;
}

std::string LaunchText(const KernelSpec& spec) {
  const Schedule& s = spec.schedule;
  const ScheduleSizes z = SizesOf(spec.sequence, s);
  const std::string clusters =
      s.cluster > 1
          ? absl::StrCat(" in ", Counted(s.grid / s.cluster, "cluster"), " of ", s.cluster)
          : "";
  return absl::StrFormat(
      "  launch     %s%s, shared memory %s (%s of %s), accumulators %d\n"
      "  operands   %s\n",
      Counted(s.grid, "block"), clusters, SizeText(static_cast<double>(z.shared_bytes)),
      Counted(s.stages, "stage"), SizeText(static_cast<double>(z.stage_bytes)), z.accumulators,
      absl::StrJoin(spec.operands, " ", [](std::string* s, const OperandBinding& b) {
        absl::StrAppend(s, BindingText(b));
      }));
}

std::string BufferText(const StitchOperand& operand) {
  if (operand.buffer == kWorkspaceBuffer) return absl::StrCat("ws+", operand.offset_bytes);
  return absl::StrCat("#", operand.buffer);
}

// "  reads #0 bf16[M,4096] ..", "  writes ..": one line each, for any number of operands.
std::string StitchText(const StitchSpec& spec) {
  std::vector<std::string> reads, writes;
  const int inputs = spec.body.num_inputs();
  for (size_t i = 0; i < spec.operands.size(); i++) {
    const int n = static_cast<int>(i);
    const TensorType& type =
        n < inputs ? spec.body.input_op(n).type : spec.body.output_type(n - inputs);
    (n < inputs ? reads : writes)
        .push_back(absl::StrCat(BufferText(spec.operands[i]), " ", sinter::ToString(type)));
  }
  return absl::StrCat("  reads      ", absl::StrJoin(reads, ", "), "\n  writes     ",
                      absl::StrJoin(writes, ", "), "\n");
}

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
  return absl::StrCat(out, spec.stitch == nullptr ? LaunchText(spec) : StitchText(*spec.stitch));
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
