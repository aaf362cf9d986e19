// PartMoves: hill climbing on whole plans: parts of patterns change sides.
#ifndef SINTER_SRC_FUSION_STITCH_PART_MOVES_H_
#define SINTER_SRC_FUSION_STITCH_PART_MOVES_H_

#include <cstdint>

#include "src/fusion/stitch/delta_evaluator.h"
#include "src/fusion/stitch/pattern_set.h"

namespace sinter {

// Beyond the paper: the beam fixes a pattern before it has seen those below it, and joins alone
// never take a decision back. A part of a pattern is a member; it with all members before it, or
// behind it; or all members up to it, or from it on; or what the
// second and third leave. As long as
// the sum of f rises, a part moves to a neighbouring pattern (`remote`: to any, while there are
// few), or to one of its own that then takes in neighbours. `budget` bounds the vertices of all
// patterns that are scored: large graphs stop early, deterministically.
void MoveParts(DeltaEvaluator* evaluator, bool remote, int64_t budget, PatternSet* plan);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_PART_MOVES_H_
