#include "src/fusion/order_check.h"

#include <algorithm>

#include "src/base/status.h"
#include "src/fusion/fusion.h"
#include "src/fusion/refuse_fit.h"
#include "src/plan/family.h"
#include "src/plan/row_order.h"
#include "src/product/matcher.h"

namespace sinter {

absl::Status OrderCheck::CheckKernel(const KernelSpec& spec) const {
  if (spec.batch_invariant != batch_invariant_) {
    return RefuseFit("batch_invariant ", spec.batch_invariant, ", asked for is ", batch_invariant_);
  }
  if (!batch_invariant_) return absl::OkStatus();
  const absl::Status order = spec.family->CheckRowOrder(spec);
  return order.ok() ? order : RefuseFit(order.message());
}

absl::StatusOr<std::string> OrderCheck::Wanted() {
  if (!wanted_.has_value()) {
    FusionOptions options;
    options.batch_invariant = true;
    options.allow_cooperative = false;
    options.keep_going = keep_going_;
    SINTER_ASSIGN_OR_RETURN(const FusionResult result,
                            PlanChain(chain_, RowOrderBucketOf(chain_), model_, options));
    wanted_ = RowOrder(result.chosen);
  }
  return *wanted_;
}

absl::Status OrderCheck::Check(const Plan& plan) {
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const absl::Status status = CheckKernel(plan.kernels[i].spec);
    if (!status.ok()) return RefuseFit("kernel ", i, ": ", status.message());
  }
  const bool chosen = std::any_of(
      plan.kernels.begin(), plan.kernels.end(),
      [](const PlannedKernel& kernel) { return kernel.spec.family->ChoosesRowOrder(); });
  if (!batch_invariant_ || (!chosen && MatchProducts(chain_).ok())) return absl::OkStatus();
  SINTER_ASSIGN_OR_RETURN(const std::string wanted, Wanted());
  return RowOrder(plan) == wanted ? absl::OkStatus()
                                  : RefuseFit("its rows are in another order than other buckets'");
}

}  // namespace sinter
