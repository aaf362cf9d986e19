// PlanChoice: chooses one of a chain's complete plans, and says why not the others.
#ifndef SINTER_SRC_FUSION_PLAN_CHOICE_H_
#define SINTER_SRC_FUSION_PLAN_CHOICE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/base/arch.h"
#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/fusion/fusion.h"
#include "src/fusion/plan_assembly.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/rankings.h"
#include "src/plan/plan.h"

namespace sinter {

// The best by predicted time; on a tie an unfused plan, then the first in `plans`, which must not
// be empty. The chosen plan's ten runners-up begin with the best of the other kind (fused or
// unfused), then the nearest.
FusionResult ChoosePlan(std::vector<Plan> plans, const DeviceModel& model);

// Why a plan was not chosen, in the cost model's own terms.

// "predicted 0.42 us slower: intake +1.30 us (A read 128 times, chosen 64)": the difference, then
// at most two levels that grew most, each with its cause in the schedule. Levels overlap, so their
// differences need not add up to the first. With a stitched kernel: "predicted 12.60 us slower:
// fixed +6.82 us (12 kernels, chosen 1), hbm +0.29 us (995 kB, chosen 147 kB)"; time beyond the
// levels is "instructions and waits". One line. Deterministic.
std::string WhyNotChosen(const Plan& other, const Plan& chosen, const DeviceModel& model);

// PlanNote: the note of a plan: the ops that its products absorbed, and the ops that are not in one
// kernel and why.

// For a chain that is one sequence: "products 1+2 | 3", or why its products are apart; "" for two
// products in one kernel.
std::string NoteOfSequence(const Segmentation& cut, const Rankings& rankings);

// For other chains. `refusals`: why some patterns became several kernels.
std::string NoteOfGraph(const std::vector<PlanStep>& steps,
                        const std::vector<std::string>& refusals);

// "op 12: gated pair + silu, product + residual": the ops that the products of a run absorbed.
std::string AbsorbedBy(const GraphRun& run);

// Refusal: the error that the caller of a chain that cannot be planned gets.

// `why`, or instead the obstacles of the products that no kernel takes: each as "op 4 (matmul of
// 'x' and 'w'): 'x' is f32[M,64], .. : cast it to bf16", with the caller's names of the inputs,
// "input 0" for those without one, and the remedy. A computed operand is reported with the inputs
// below it. `products` are the chain's products.
absl::Status Refusal(const Chain& chain, const ProductRuns& products, const absl::Status& why);

// Checks that the model's chip has kernels for all ops. FAILED_PRECONDITION names the first op that
// needs another chip, the chips that run it, and what to do instead.
absl::Status CheckChip(const Chain& chain, const DeviceModel& model, const ArchFeatures& features);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PLAN_CHOICE_H_
