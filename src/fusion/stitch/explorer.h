// The fusion explorer: candidates, remote fusion, beam search, joins. Steered by the
// delta-evaluator alone.
#ifndef SINTER_SRC_FUSION_STITCH_EXPLORER_H_
#define SINTER_SRC_FUSION_STITCH_EXPLORER_H_

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
  bool remote = true;  // false: only patterns that hand-overs or shared tensors connect
};

// The beam's plans, best accumulated f first; equal ones once. Deterministic: ties go by vertex
// numbers.
std::vector<PatternSet> ExploreFusion(const StitchGraph& graph, const DeviceModel& model,
                                      const ExploreOptions& options);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_EXPLORER_H_
