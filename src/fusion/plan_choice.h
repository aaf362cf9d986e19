// PlanChoice: chooses one of a chain's complete plans, and says why not the others.
#ifndef SINTER_SRC_FUSION_PLAN_CHOICE_H_
#define SINTER_SRC_FUSION_PLAN_CHOICE_H_

#include <string>
#include <vector>

#include "src/base/device_model.h"
#include "src/fusion/fusion.h"
#include "src/plan/plan.h"

namespace sinter {

// The best by predicted time; on a tie an unfused plan, then the first in `plans`, which must not
// be empty. The chosen plan's ten runners-up begin with the best of the other kind (fused or
// unfused), then the nearest.
FusionResult ChoosePlan(std::vector<Plan> plans, const DeviceModel& model);

// Why a plan was not chosen, in the cost model's own terms.

// "predicted 0.42 us slower: intake +1.30 us (A read 128 times, chosen 64)": the difference, then
// at most two levels that grew most, each with its cause in the schedule. Levels overlap, so their
// differences need not add up to the first. With a stitched kernel: "predicted 12.60 us slower:
// fixed +6.82 us (12 kernels, chosen 1), hbm +0.29 us (995 kB, chosen 147 kB)"; time beyond the
// levels is "instructions and waits". One line. Deterministic.
std::string WhyNotChosen(const Plan& other, const Plan& chosen, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PLAN_CHOICE_H_
