// PlanChoice: chooses one of a chain's complete plans, and says why not the others.
#ifndef SINTER_SRC_FUSION_PLAN_CHOICE_H_
#define SINTER_SRC_FUSION_PLAN_CHOICE_H_

#include <vector>

#include "src/fusion/fusion.h"

namespace sinter {

// The best by predicted time; on a tie an unfused plan, then the first in `plans`, which must not
// be empty. The chosen plan's ten runners-up begin with the best of the other kind (fused or
// unfused), then the nearest.
FusionResult ChoosePlan(std::vector<Plan> plans, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PLAN_CHOICE_H_
