// Planner: complete plans of a chain: the kernels that compute it, their families and schedules.
#ifndef SINTER_SRC_FUSION_PLANNER_H_
#define SINTER_SRC_FUSION_PLANNER_H_

#include "src/fusion/fusion.h"

namespace sinter {

// Products and the ops that they absorb go to kernels of products (product_runs.h), all other ops
// to stitched kernels: the explorer offers partitions, and the latency-evaluator picks one. A chain
// that is one sequence of products is a graph of one run.
// A partition has a plan for each pair (i, j): the i-th cut of every run of products and the j-th
// schedule of every kernel, the last where there are fewer. The unfused plan has one kernel for
// every vertex of the uncontracted StitchGraph and one for every product.
// Batch-invariant plans have one partition, and stitched kernels that differ only in their grids,
// for all buckets: both are chosen for kRowOrderBucket rows.
// `pace` may be null. Errors are PlanChain's, without the prefix of kNoLegalPlan.
absl::StatusOr<FusionResult> MakePlans(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                       const FusionOptions& options, Pace* pace);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PLANNER_H_
