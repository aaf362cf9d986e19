#include "src/engine/tune_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/engine/rank_correlation.h"

namespace sinter {
namespace {

std::string Microseconds(double us) { return us > 0 ? absl::StrFormat("%.2f", us) : "-"; }

}  // namespace

std::string TuneReport(int64_t bucket, absl::string_view device,
                       const std::vector<TriedPlan>& tried, int taken) {
  std::string text =
      absl::StrFormat("tuning at m <= %d on %s\n%4s %12s %12s %12s  %-8s %s\n", bucket, device,
                      "plan", "predicted us", "measured us", "in turns us", "kind", "state");
  std::vector<double> predicted, measured;
  for (size_t i = 0; i < tried.size(); ++i) {
    const TriedPlan& one = tried[i];
    text += absl::StrFormat("%4d %12.2f %12s %12s  %-8s %s\n", i + 1, one.plan->PredictedUs(),
                            Microseconds(one.measured_us), Microseconds(one.in_turns_us),
                            one.plan->name(), one.state);
    for (const PlannedKernel& kernel : one.plan->kernels) {
      absl::StrAppend(&text, "       ", ScheduleText(kernel.spec), "\n");
    }
    if (one.measured_us <= 0) continue;
    predicted.push_back(one.plan->PredictedUs());
    measured.push_back(one.measured_us);
  }
  text += absl::StrFormat("rank correlation of predicted and measured: %.2f of %d plans\n",
                          RankCorrelation(predicted, measured), predicted.size());
  if (taken < 0) return absl::StrCat(text, "no plan could be measured\n");
  if (taken == 0) return absl::StrCat(text, "the predicted choice stands\n");
  return absl::StrCat(text, "plan ", taken + 1, " is faster\n");
}

}  // namespace sinter
