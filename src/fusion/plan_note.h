// PlanNote: the note of a plan: what its products absorbed, and what is not in one kernel and why.
#ifndef SINTER_SRC_FUSION_PLAN_NOTE_H_
#define SINTER_SRC_FUSION_PLAN_NOTE_H_

#include <string>
#include <vector>

#include "src/fusion/plan_assembly.h"
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

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PLAN_NOTE_H_
