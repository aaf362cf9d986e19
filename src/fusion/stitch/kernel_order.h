// The order of a plan's kernels.
#ifndef SINTER_SRC_FUSION_STITCH_KERNEL_ORDER_H_
#define SINTER_SRC_FUSION_STITCH_KERNEL_ORDER_H_

#include <vector>

#include "src/fusion/stitch/latency_evaluator.h"

namespace sinter {

// Sorts `kernels` into an executable order, as near to the given one as possible; false when some
// wait for one another.
bool OrderKernels(const StitchGraph& graph, std::vector<CostedKernel>* kernels);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_KERNEL_ORDER_H_
