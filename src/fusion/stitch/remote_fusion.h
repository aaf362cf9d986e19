// RemoteFusion: patterns of vertices that are not neighbours, and joins of whole patterns.
#ifndef SINTER_SRC_FUSION_STITCH_REMOTE_FUSION_H_
#define SINTER_SRC_FUSION_STITCH_REMOTE_FUSION_H_

#include <vector>

#include "src/fusion/stitch/pattern_reduction.h"
#include "src/fusion/stitch/pattern_set.h"

namespace sinter {

// The paper's remote fusion: the candidates of a virtual producer h of all vertices.
std::vector<ScoredPattern> RemoteFusion(const StitchGraph& graph, PatternReduction* reduction);

// Beyond the paper, on a whole plan: PatternReduction grows patterns from one producer down, so a
// second producer of a member is left out; these two add it. Both only raise the sum of f.

// Joins patterns or vertices with a hand-over or a common input, the highest gain first, while one
// gains and no cycle arises.
void JoinNeighbours(DeltaEvaluator* evaluator, PatternSet* plan);

// Kernel packing: joins kernels at the same distance from the plan's start, then from its end. No
// path connects two of them.
void PackLevels(DeltaEvaluator* evaluator, PatternSet* plan);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_REMOTE_FUSION_H_
