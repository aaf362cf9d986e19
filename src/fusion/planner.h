// Planner: complete plans of a chain: which kernels of which families compute it, and how.
#ifndef SINTER_SRC_FUSION_PLANNER_H_
#define SINTER_SRC_FUSION_PLANNER_H_

#include "src/fusion/fusion.h"

namespace sinter {

// Products go to the gemm and chain families with what these absorb (product_runs.h), everything
// else to stitch kernels: the explorer's partitions, of which the latency-evaluator picks one. A
// chain that is one sequence of products is a graph of one run.
// Of a partition the i-th plan takes the i-th cut of every run of products and the i-th schedule of
// every kernel. The unfused plan has one kernel for every vertex of the uncontracted StitchGraph
// and one for every product.
// Batch-invariant plans are of one partition, with stitched kernels that differ in their grids
// alone, whatever the bucket is: both are chosen for kRowOrderBucket rows.
// `pace` may be null. Errors are PlanChain's, without what kNoLegalPlan begins with.
absl::StatusOr<FusionResult> MakePlans(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                       const FusionOptions& options, Pace* pace);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PLANNER_H_
