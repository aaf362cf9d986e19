// The fusion explorer: candidates, remote fusion, beam search, joins. Steered by the
// delta-evaluator alone.
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
  int64_t move_budget = 200000;  // of MoveParts, each plan
  bool remote = true;            // false: only patterns that hand-overs or shared tensors connect
};

// The best plans of the beam with and without the virtual producer's candidates, at most
// beam_width, best accumulated f first; equal ones once. Deterministic: ties go by vertex numbers.
std::vector<PatternSet> ExploreFusion(const StitchGraph& graph, const DeviceModel& model,
                                      const ExploreOptions& options);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_EXPLORER_H_
