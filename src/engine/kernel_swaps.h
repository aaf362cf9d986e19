// KernelSwaps: plans that differ from one another in the schedule of one kernel.
#ifndef SINTER_SRC_ENGINE_KERNEL_SWAPS_H_
#define SINTER_SRC_ENGINE_KERNEL_SWAPS_H_

#include <cstddef>
#include <vector>

#include "src/plan/plan.h"

namespace sinter {

// Whether both compute the same: of a stitched kernel its body, of others the problem. Operands may
// lie elsewhere.
bool SameProblem(const KernelSpec& a, const KernelSpec& b);

// Whether kernel by kernel both compute the same from the same operands, so that any kernel of one
// may stand in the other.
bool SameCut(const Plan& a, const Plan& b);

// SameCut, and kernel by kernel the same dataflow.
bool SameDataflows(const Plan& a, const Plan& b);

// `plan` with kernel `kernel` of each plan of `ranking` that has the same cut, in its order: of the
// first `limit` such plans, those whose schedule there is another than `plan`'s, each once.
// Precondition: kernel < plan.kernels.size().
std::vector<Plan> KernelSwaps(const Plan& plan, size_t kernel, const std::vector<Plan>& ranking,
                              size_t limit);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_KERNEL_SWAPS_H_
