// PartMoves: hill climbing on whole plans: moves parts of patterns to other patterns.
#ifndef SINTER_SRC_FUSION_STITCH_PART_MOVES_H_
#define SINTER_SRC_FUSION_STITCH_PART_MOVES_H_

#include <cstdint>

#include "src/fusion/stitch/delta_evaluator.h"
#include "src/fusion/stitch/pattern_set.h"

namespace sinter {

// Beyond the paper: the beam fixes a pattern before it has seen those below it, and joins never
// undo a decision. A part of a pattern is: one member; it with all members that it needs, or with
// all that need it; all members up to it, or from it on; or the rest without the second or third.
// While the sum of f rises, a part moves to a neighbouring pattern (`remote`: to any, while there
// are few), or to a new pattern that then takes in neighbours. `budget` bounds the vertices of all
// scored patterns: large graphs stop early, deterministically.
void MoveParts(DeltaEvaluator* evaluator, bool remote, int64_t budget, PatternSet* plan);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_PART_MOVES_H_
