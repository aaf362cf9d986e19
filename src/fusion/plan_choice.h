// PlanChoice: which of a chain's complete plans runs, and why the others do not.
#ifndef SINTER_SRC_FUSION_PLAN_CHOICE_H_
#define SINTER_SRC_FUSION_PLAN_CHOICE_H_

#include <vector>

#include "src/fusion/fusion.h"

namespace sinter {

// The best by predicted time; of equal times an unfused plan, then the order of `plans`, which has
// one at least. The chosen one's ten runners-up are the best of the other kind, then the nearest.
FusionResult ChoosePlan(std::vector<Plan> plans, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PLAN_CHOICE_H_
