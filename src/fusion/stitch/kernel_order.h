// Orders of a plan's kernels.
#ifndef SINTER_SRC_FUSION_STITCH_KERNEL_ORDER_H_
#define SINTER_SRC_FUSION_STITCH_KERNEL_ORDER_H_

#include <vector>

#include "src/fusion/stitch/latency_evaluator.h"

namespace sinter {

// Into an order in which they can run, as near to the given one as can be; false when some wait for
// one another.
bool OrderKernels(const StitchGraph& graph, std::vector<CostedKernel>* kernels);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_KERNEL_ORDER_H_
