#include "src/fusion/plan_choice.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/fusion/loss_reason.h"

namespace sinter {
namespace {

constexpr size_t kRunnersUp = 10;

std::vector<Candidate> RunnersUp(const Plan& chosen, const std::vector<Plan>& others,
                                 const DeviceModel& model) {
  std::vector<const Plan*> order;
  for (const Plan& plan : others) order.push_back(&plan);
  const auto other_kind = std::find_if(
      order.begin(), order.end(), [&](const Plan* plan) { return plan->fused != chosen.fused; });
  if (other_kind != order.end()) std::rotate(order.begin(), other_kind, other_kind + 1);
  if (order.size() > kRunnersUp) order.resize(kRunnersUp);
  std::vector<Candidate> list;
  for (const Plan* plan : order) {
    list.push_back({NameInList(*plan), plan->PredictedUs(), WhyNotChosen(*plan, chosen, model),
                    plan->PlanDigest()});
  }
  return list;
}

}  // namespace

FusionResult ChoosePlan(std::vector<Plan> plans, const DeviceModel& model) {
  std::stable_sort(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
    const double x = a.PredictedUs(), y = b.PredictedUs();
    return x != y ? x < y : a.fused < b.fused;
  });
  FusionResult result;
  result.chosen = std::move(plans.front());
  result.alternatives.assign(std::make_move_iterator(plans.begin() + 1),
                             std::make_move_iterator(plans.end()));
  result.chosen.runners_up = RunnersUp(result.chosen, result.alternatives, model);
  return result;
}

}  // namespace sinter
