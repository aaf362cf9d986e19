// The fusion explorer: candidates, remote fusion, beam search, joins. The delta-evaluator alone
// guides it.
#ifndef SINTER_SRC_FUSION_STITCH_EXPLORER_H_
#define SINTER_SRC_FUSION_STITCH_EXPLORER_H_

#include <cstdint>
#include <vector>

#include "src/base/device_model.h"
#include "src/fusion/stitch/delta_evaluator.h"
#include "src/fusion/stitch/pattern_reduction.h"
#include "src/fusion/stitch/pattern_set.h"

namespace sinter {

constexpr int kBeamWidth = 3;  // the paper's

struct ExploreOptions {
  DeltaOptions delta;
  int patterns_a_vertex = kPatternsAVertex;
  int beam_width = kBeamWidth;
  int64_t move_budget = 200000;  // of MoveParts, for each plan
  bool remote = true;            // false: only patterns connected by hand-overs or shared tensors
};

// The best plans of the beam with and without the virtual producer's candidates, without
// duplicates, at most beam_width, the highest accumulated f first. Deterministic: ties go by vertex
// numbers.
std::vector<PatternSet> ExploreFusion(const StitchGraph& graph, const DeviceModel& model,
                                      const ExploreOptions& options);

// FusionStitching's selection of disjoint patterns.
// Visits the virtual producer's candidates, then the vertices from producers to consumers. Appends
// each candidate to each plan where it neither overlaps nor makes a cycle, and keeps the `width`
// plans with the highest accumulated f. Best first; of equal f the one found first. `pace` may be
// null. (arXiv 2009.10924, section 5.3.)
std::vector<PatternSet> BeamSearch(const StitchGraph& graph, const PatternReduction& candidates,
                                   const std::vector<ScoredPattern>& virtual_candidates, int width,
                                   Pace* pace = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_EXPLORER_H_
