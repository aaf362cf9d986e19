// Why a plan was not chosen, in the cost model's own terms.
#ifndef SINTER_SRC_FUSION_LOSS_REASON_H_
#define SINTER_SRC_FUSION_LOSS_REASON_H_

#include <string>

#include "src/base/device_model.h"
#include "src/plan/plan.h"

namespace sinter {

// "predicted 0.42 us slower: intake +1.30 us (A read 128 times, chosen 64)": the difference, then
// at most two levels that grew most, each with its cause in the schedule. Levels overlap, so their
// differences need not add up to the first. With a stitched kernel: "predicted 12.60 us slower:
// fixed +6.82 us (12 kernels, chosen 1), hbm +0.29 us (995 kB, chosen 147 kB)"; time beyond the
// levels is "instructions and waits". One line. Deterministic.
std::string WhyNotChosen(const Plan& other, const Plan& chosen, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_LOSS_REASON_H_
