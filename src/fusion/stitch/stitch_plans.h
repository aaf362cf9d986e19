// PlanStitch: complete plans of any DAG of memory-intensive ops and products.
#ifndef SINTER_SRC_FUSION_STITCH_STITCH_PLANS_H_
#define SINTER_SRC_FUSION_STITCH_STITCH_PLANS_H_

#include "src/fusion/fusion.h"

namespace sinter {

// Products go to the gemm and chain families with what these absorb (product_runs.h), everything
// else to stitch kernels: the explorer's plans, of which the latency-evaluator picks one. The
// unfused plan has one kernel for every vertex of the uncontracted StitchGraph and one for every
// product; it is chosen unless another is predicted to be faster, and in the result when it can be
// made. Batch-invariant plans are of one partition, with stitched kernels that differ in their
// grids alone, whatever the bucket is: both are chosen for kRowOrderBucket rows. `pace` may be
// null. kNoLegalPlan naming the op that no kernel takes. Deterministic: equal canonical bytes give
// equal plans.
absl::StatusOr<FusionResult> PlanStitch(const Chain& chain, int64_t bucket,
                                        const DeviceModel& model, const FusionOptions& options,
                                        Pace* pace);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_STITCH_PLANS_H_
