// KernelChoice: the latency-evaluator's decision on one plan of the beam.
#ifndef SINTER_SRC_FUSION_STITCH_KERNEL_CHOICE_H_
#define SINTER_SRC_FUSION_STITCH_KERNEL_CHOICE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/fusion/stitch/delta_evaluator.h"
#include "src/fusion/stitch/latency_evaluator.h"
#include "src/fusion/stitch/pattern_set.h"

namespace sinter {

struct ChosenKernels {
  std::vector<CostedKernel>
      kernels;    // in an order in which they can run; runs of products have no body
  double us = 0;  // of all kernels with a body
  std::vector<std::string> refusals;  // why some patterns became several kernels
};

// Makes kernels of a plan's patterns. A pattern that no kernel takes, or whose parts are faster, is
// cut: between its connected components, before its first grid barrier, or in half; and its parts
// likewise. With `join`, parts that are faster together are joined again (kernel_joiner.h); with
// `pack`, independent kernels are packed into one launch. Vertices in `runs` belong to the
// product families and get no body; a product outside every run is treated like any other op.
// FAILED_PRECONDITION naming the op when a single vertex is refused.
absl::StatusOr<ChosenKernels> ChooseKernels(const StitchGraph& graph, const PatternSet& plan,
                                            const NodeSet& runs, DeltaEvaluator* evaluator,
                                            LatencyEvaluator* latency, bool join = true,
                                            bool pack = false);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_KERNEL_CHOICE_H_
