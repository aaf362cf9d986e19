// The fusion explorer: candidates, remote fusion, beam search, joins. The delta-evaluator alone
// guides it.
#ifndef SINTER_SRC_FUSION_STITCH_EXPLORER_H_
#define SINTER_SRC_FUSION_STITCH_EXPLORER_H_

#include <cstdint>
#include <vector>

#include "src/base/device_model.h"
#include "src/fusion/stitch/beam_search.h"
#include "src/fusion/stitch/delta_evaluator.h"
#include "src/fusion/stitch/pattern_set.h"

namespace sinter {

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

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_EXPLORER_H_
