// PlanNote: what a plan's note says: who took what, and what is not in one kernel and why.
#ifndef SINTER_SRC_FUSION_PLAN_NOTE_H_
#define SINTER_SRC_FUSION_PLAN_NOTE_H_

#include <string>
#include <vector>

#include "src/fusion/plan_assembly.h"
#include "src/fusion/rankings.h"

namespace sinter {

// Of a chain that is one sequence: "products 1+2 | 3", or why it is not fused; "" of two products
// in one kernel.
std::string NoteOfSequence(const Segmentation& cut, const Rankings& rankings);

// Of others. `refusals`: why patterns that were wanted are several kernels.
std::string NoteOfGraph(const std::vector<PlanStep>& steps,
                        const std::vector<std::string>& refusals);

// "op 12: gated pair + silu, product + residual": what the products of a run have absorbed.
std::string AbsorbedBy(const GraphRun& run);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PLAN_NOTE_H_
