// Fusion: partitions a chain into kernels. The fused and the unfused plan of every chain are made
// here.
#ifndef SINTER_SRC_FUSION_FUSION_H_
#define SINTER_SRC_FUSION_FUSION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/plan/plan.h"
#include "src/product/search/search.h"

namespace sinter {

struct FusionOptions {
  // A row's bits do not depend on how many rows there are: plans of all buckets have one row order
  // (src/plan/row_order.h), whatever the other options are.
  bool batch_invariant = false;
  bool allow_cooperative = true;
  // For whoever measures before choosing: also task lists and spatial gates, and of stitched
  // kernels three times as many schedules, of as many kinds as there are (SearchOptions).
  bool for_tuning = false;
  int top_k = 11;
  // Asked within milliseconds of work, and obeyed. Null: nobody. No part of what is planned.
  const KeepGoing* keep_going = nullptr;
};

// Of batch-invariant plans: what stitched kernels compute, and how threads share a row, is chosen
// for so many rows, whatever the bucket is.
constexpr int64_t kRowOrderBucket = 1024;

struct FusionResult {
  Plan chosen;                     // the better by predicted time; the unfused plan on a tie
  std::vector<Plan> alternatives;  // every other complete plan, best first: the unfused one is
                                   // always in here or chosen
  uint64_t considered = 0, legal = 0;
};

// kNoLegalPlan naming the op that no kernel family takes, or that takes rows together where the
// plan is to be batch-invariant; what options.keep_going said when it said no. Deterministic: equal
// canonical bytes give equal plans.
absl::StatusOr<FusionResult> PlanChain(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                       const FusionOptions& options);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FUSION_H_
