// KernelSwaps: plans that differ from one another in the schedule of one kernel.
#ifndef SINTER_SRC_ENGINE_KERNEL_SWAPS_H_
#define SINTER_SRC_ENGINE_KERNEL_SWAPS_H_

#include <cstddef>
#include <vector>

#include "src/plan/decisions.h"

namespace sinter {

// Whether kernel by kernel both compute the same ops, so that any kernel of one may stand in the
// other.
bool SameCut(const Plan& a, const Plan& b);

// SameCut, and kernel by kernel the same dataflow.
bool SameDataflows(const Plan& a, const Plan& b);

// The decisions of `plan` with kernel `kernel` of each plan of `ranking` that has the same cut, in
// its order: of the first `limit` such plans, those whose schedule there is another than `plan`'s,
// each once. Precondition: kernel < plan.kernels.size().
std::vector<Decisions> KernelSwaps(const Plan& plan, size_t kernel,
                                   const std::vector<Plan>& ranking, size_t limit);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_KERNEL_SWAPS_H_
