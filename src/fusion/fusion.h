// Fusion: partitions a chain into kernels. Makes the fused and the unfused plan of every chain.
#ifndef SINTER_SRC_FUSION_FUSION_H_
#define SINTER_SRC_FUSION_FUSION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/plan/plan.h"
#include "src/product/search/search.h"

namespace sinter {

struct FusionOptions {
  // A row's bits do not depend on the number of rows: plans of all buckets have one row order
  // (src/plan/plan.h), whatever the other options are.
  bool batch_invariant = false;
  bool allow_cooperative = true;
  // For callers that measure before they choose: also the dataflows of Offered::kTuning, and three
  // times as many schedules of a stitched kernel, of different kinds (SearchOptions).
  bool for_tuning = false;
  // Plans only kernels that come with the library, and need no compiler. Refused if they cannot
  // take the chain.
  bool stand_ins = false;
  int top_k = 11;
  // Asked every few milliseconds of work, and obeyed; null: never. Does not affect the plan.
  const KeepGoing* keep_going = nullptr;
};

// Batch-invariant plans choose the bodies of stitched kernels, and how threads share a row, for
// this number of rows, whatever the bucket is; or for the chain's largest bucket where that is
// less.
constexpr int64_t kRowOrderBucket = 1024;
int64_t RowOrderBucketOf(const Chain& chain);

struct FusionResult {
  Plan chosen;                     // the best by predicted time; the unfused plan on a tie
  std::vector<Plan> alternatives;  // every other complete plan, best first; the unfused plan is
                                   // always in here or chosen
  uint64_t considered = 0, legal = 0;
};

// kNoLegalPlan naming the op that no kernel family takes, or that mixes rows in a batch-invariant
// plan; the error of options.keep_going when it refuses. Deterministic: equal canonical bytes give
// equal plans.
absl::StatusOr<FusionResult> PlanChain(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                       const FusionOptions& options);

// Planner: complete plans of a chain: the kernels that compute it, their families and schedules.

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

// Replacement: other kernels for those of a plan that a compiler refused. The rest of the plan
// stays.

// So many schedules of the same ops are tried before the ops are split.
constexpr int kMostTriedOfAKernel = 4;

// `decisions` of `chain` with the kernels at `positions` (ascending) replaced, each individually,
// or with the others of a run of a family's own: by the next best schedule of its ops that is not
// among `refused`. `refused` holds the decisions of all kernels that were refused so far, including
// the ones at `positions`. If kMostTriedOfAKernel were refused, or none is left, two products get a
// kernel each. A stitched kernel's ops are halved between ops that no value connects, or in their
// order, down to single ops. FAILED_PRECONDITION naming the op of which no kernel is left.
// `options` are the ones that the plan was made with; options.keep_going is obeyed. Deterministic.
absl::StatusOr<Decisions> ReplaceKernels(const Chain& chain, const DeviceModel& model,
                                         const FusionOptions& options, Decisions decisions,
                                         const std::vector<size_t>& positions,
                                         const std::vector<KernelDecision>& refused);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FUSION_H_
