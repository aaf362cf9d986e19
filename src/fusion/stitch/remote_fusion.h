// RemoteFusion: patterns of vertices that are not neighbours, joins of whole patterns, and moves of
// their parts.
#ifndef SINTER_SRC_FUSION_STITCH_REMOTE_FUSION_H_
#define SINTER_SRC_FUSION_STITCH_REMOTE_FUSION_H_

#include <cstdint>
#include <vector>

#include "src/fusion/stitch/delta_evaluator.h"
#include "src/fusion/stitch/explorer.h"
#include "src/fusion/stitch/pattern.h"

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

// PartMoves: hill climbing on whole plans: moves parts of patterns to other patterns.

// Beyond the paper: the beam fixes a pattern before it has seen those below it, and joins never
// undo a decision. A part of a pattern is: one member; it with all members that it needs, or with
// all that need it; all members up to it, or from it on; or the rest without the second or third.
// While the sum of f rises, a part moves to a neighbouring pattern (`remote`: to any, while there
// are few), or to a new pattern that then takes in neighbours. `budget` bounds the vertices of all
// scored patterns: large graphs stop early, deterministically.
void MoveParts(DeltaEvaluator* evaluator, bool remote, int64_t budget, PatternSet* plan);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_REMOTE_FUSION_H_
