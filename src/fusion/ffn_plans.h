// Plans of a chain that is an FFN with schedules of the caller's choice: what tests and benches
// force.
#ifndef SINTER_SRC_FUSION_FFN_PLANS_H_
#define SINTER_SRC_FUSION_FFN_PLANS_H_

#include "src/chain/ffn_view.h"
#include "src/plan/plan.h"
#include "src/search/search.h"

namespace sinter {

FfnProblem ProblemOf(const FfnView& view, int64_t bucket);

// One chain kernel. C and the ready flags lie in the workspace when the dataflow needs them.
// `num_inputs`: of the chain; its outputs are numbered after them.
Plan FusedPlan(const FfnView& view, int num_inputs, const FfnProblem& problem,
               const RankedSchedule& ranked);

// One gemm kernel per product, C in the workspace. `second` is null for a view of one product.
Plan UnfusedPlan(const FfnView& view, int num_inputs, const FfnProblem& problem,
                 const RankedSchedule& first, const RankedSchedule* second);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FFN_PLANS_H_
