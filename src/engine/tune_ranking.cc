#include "src/engine/tune_ranking.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/base/status.h"
#include "src/engine/kernel_swaps.h"
#include "src/engine/plan_builder.h"
#include "src/engine/plan_record.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

// Plans of other dataflows than the predicted choice's are tried as far as they are predicted to
// take this times its time.
constexpr double kWorthTrying = 1.3;

// With a kernel that planning by prediction may leave out.
bool IsForTuning(const Plan& plan) {
  return std::any_of(plan.kernels.begin(), plan.kernels.end(), [](const PlannedKernel& kernel) {
    return kernel.spec.family->IsForTuning(kernel.spec);
  });
}

// Appends what is for tuning and not in the ranking yet.
void AddPlans(std::vector<Plan> more, FusionResult* planned) {
  std::set<Digest> known = {planned->chosen.PlanDigest()};
  for (const Plan& plan : planned->alternatives) known.insert(plan.PlanDigest());
  for (Plan& plan : more) {
    if (IsForTuning(plan) && known.insert(plan.PlanDigest()).second) {
      planned->alternatives.push_back(std::move(plan));
    }
  }
}

}  // namespace

absl::StatusOr<FusionResult> PlanForTuning(const PlanRequest& request, int top_k,
                                           const BuildControl& control, EngineCore& core) {
  FusionOptions options;
  options.keep_going = &control;
  options.batch_invariant = request.batch_invariant;
  options.top_k = top_k;
  core.counters.searched.fetch_add(1, std::memory_order_relaxed);
  SINTER_ASSIGN_OR_RETURN(FusionResult planned, PlanOf(request, options, core));
  options.for_tuning = true;
  SINTER_ASSIGN_OR_RETURN(FusionResult more, PlanOf(request, options, core));
  more.alternatives.insert(more.alternatives.begin(), std::move(more.chosen));
  AddPlans(std::move(more.alternatives), &planned);
  return planned;
}

std::vector<Plan> PlansToTry(const std::vector<Plan>& ranking, int top_k) {
  std::vector<Plan> tried;
  bool has_unfused = false;
  const double most_us = kWorthTrying * ranking.front().PredictedUs();
  for (const Plan& plan : ranking) {
    const auto alike = std::count_if(tried.begin(), tried.end(),
                                     [&](const Plan& other) { return SameDataflows(other, plan); });
    const bool worth = alike < top_k / 4 && plan.PredictedUs() <= most_us;
    const bool room = static_cast<int>(tried.size()) < std::max(top_k, 1);
    if (!room && !worth && (has_unfused || plan.fused)) continue;
    has_unfused |= !plan.fused;
    tried.push_back(plan);
  }
  return tried;
}

}  // namespace sinter
