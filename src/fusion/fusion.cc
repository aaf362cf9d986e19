#include "src/fusion/fusion.h"

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/rows_apart.h"
#include "src/fusion/planner.h"
#include "src/fusion/stitch/op_class.h"
#include "src/product/element.h"

namespace sinter {
namespace {

void MarkBatchInvariant(FusionResult* result) {
  const auto mark = [](Plan& plan) {
    for (PlannedKernel& kernel : plan.kernels) kernel.spec.batch_invariant = true;
  };
  mark(result->chosen);
  for (Plan& plan : result->alternatives) mark(plan);
}

// Products of s8 are chains already; their kernels are not written.
absl::Status CheckProducts(const Chain& chain) {
  for (ValueId id = 0; id < static_cast<ValueId>(chain.ops().size()); ++id) {
    if (ClassOf(chain, id) != OpClass::kProduct) continue;
    const DType dtype = chain.op(chain.op(id).operands[0]).type.dtype;
    if (!IsCode(dtype) || FindElement(dtype) != nullptr) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("op ", id, " (", NameOf(chain.op(id)), ") has operands of ", NameOf(dtype),
                     ", which no kernel multiplies yet; kernels multiply bf16, f16 and e4m3"));
  }
  return absl::OkStatus();
}

absl::Status NoLegalPlan(const absl::Status& why) {
  return MakeError(ErrorCode::kNoLegalPlan,
                   absl::StrCat("no kernel family takes this chain: ", why.message()));
}

}  // namespace

absl::StatusOr<FusionResult> PlanChain(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                       const FusionOptions& options) {
  FusionOptions used = options;
  used.batch_invariant &= chain.UsesM();  // otherwise there is only one number of rows
  if (used.batch_invariant && used.stand_ins) {
    return MakeError(ErrorCode::kNoLegalPlan, "no stand-in is batch-invariant");
  }
  if (used.batch_invariant) {
    const absl::Status apart = CheckRowsApart(chain);
    if (!apart.ok()) {
      return MakeError(ErrorCode::kNoLegalPlan, absl::StrCat("batch_invariant: ", apart.message()));
    }
  }
  if (absl::Status s = CheckProducts(chain); !s.ok()) return NoLegalPlan(s);
  absl::StatusOr<FusionResult> result = Stoppable(options.keep_going, [&](Pace* pace) {
    absl::StatusOr<FusionResult> plans = MakePlans(chain, bucket, model, used, pace);
    if (plans.ok()) return plans;
    return absl::StatusOr<FusionResult>(NoLegalPlan(plans.status()));
  });
  if (result.ok() && used.batch_invariant) MarkBatchInvariant(&*result);
  return result;
}

}  // namespace sinter
