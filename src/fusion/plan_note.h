// PlanNote: the note of a plan: what its products absorbed, and what is not in one kernel and why.
#ifndef SINTER_SRC_FUSION_PLAN_NOTE_H_
#define SINTER_SRC_FUSION_PLAN_NOTE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/chain/chain.h"
#include "src/fusion/plan_assembly.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/rankings.h"

namespace sinter {

// For a chain that is one sequence: "products 1+2 | 3", or why its products are apart; "" for two
// products in one kernel.
std::string NoteOfSequence(const Segmentation& cut, const Rankings& rankings);

// For other chains. `refusals`: why some patterns became several kernels.
std::string NoteOfGraph(const std::vector<PlanStep>& steps,
                        const std::vector<std::string>& refusals);

// "op 12: gated pair + silu, product + residual": the ops that the products of a run absorbed.
std::string AbsorbedBy(const GraphRun& run);

// Refusal: what the caller of a chain that cannot be planned is told.

// `why`, or in its place what is the matter with the products that no kernel takes: each as "op 4
// (matmul of 'x' and 'w'): 'x' is f32[M,64], .. : cast it to bf16", with the caller's names of the
// inputs, "input 0" for those without one, and the way out. An operand that is computed is told
// with the inputs below it. `products` are those of the chain.
absl::Status Refusal(const Chain& chain, const ProductRuns& products, const absl::Status& why);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PLAN_NOTE_H_
