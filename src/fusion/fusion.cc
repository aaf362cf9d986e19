#include "src/fusion/fusion.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/chain.h"

namespace sinter {
namespace {

void MarkBatchInvariant(FusionResult* result) {
  const auto mark = [](Plan& plan) {
    for (PlannedKernel& kernel : plan.kernels) kernel.spec.batch_invariant = true;
  };
  mark(result->chosen);
  for (Plan& plan : result->alternatives) mark(plan);
}

absl::Status NoLegalPlan(absl::string_view why) {
  return MakeError(ErrorCode::kNoLegalPlan,
                   absl::StrCat("no kernel family takes this chain: ", why));
}

}  // namespace

int64_t RowOrderBucketOf(const Chain& chain) {
  return std::min(kRowOrderBucket, LargestBucketOf(chain));
}

absl::StatusOr<FusionResult> PlanChain(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                       const FusionOptions& options) {
  FusionOptions used = options;
  used.batch_invariant &= chain.UsesM();  // otherwise there is only one number of rows
  if (used.batch_invariant && used.stand_ins) {
    return NoLegalPlan(
        "no stand-in is batch-invariant: leave batch_invariant off, or prepare where a compiler "
        "is");
  }
  if (used.batch_invariant) {
    const absl::Status apart = CheckRowsApart(chain);
    if (!apart.ok()) {
      return NoLegalPlan(absl::StrCat("batch_invariant: ", apart.message(),
                                      ": leave batch_invariant off, or compute this op in a chain "
                                      "without it"));
    }
  }
  absl::StatusOr<FusionResult> result = Stoppable(options.keep_going, [&](Pace* pace) {
    absl::StatusOr<FusionResult> plans = MakePlans(chain, bucket, model, used, pace);
    if (plans.ok()) return plans;
    return absl::StatusOr<FusionResult>(NoLegalPlan(plans.status().message()));
  });
  if (result.ok() && used.batch_invariant) MarkBatchInvariant(&*result);
  return result;
}

}  // namespace sinter
