// BeamSearch: FusionStitching's selection of disjoint patterns.
#ifndef SINTER_SRC_FUSION_STITCH_BEAM_SEARCH_H_
#define SINTER_SRC_FUSION_STITCH_BEAM_SEARCH_H_

#include <vector>

#include "src/fusion/stitch/pattern_reduction.h"
#include "src/fusion/stitch/pattern_set.h"

namespace sinter {

constexpr int kBeamWidth = 3;  // the paper's

// Visits the virtual producer's candidates, then the vertices from producers to consumers. Appends
// each candidate to each plan where it neither overlaps nor makes a cycle, and keeps the `width`
// plans with the highest accumulated f. Best first; of equal f the one found first. `pace` may be
// null. (arXiv 2009.10924, section 5.3.)
std::vector<PatternSet> BeamSearch(const StitchGraph& graph, const PatternReduction& candidates,
                                   const std::vector<ScoredPattern>& virtual_candidates, int width,
                                   Pace* pace = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_BEAM_SEARCH_H_
