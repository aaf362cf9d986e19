#include "src/fusion/stitch/explorer.h"

#include <algorithm>
#include <utility>

#include "src/fusion/stitch/part_moves.h"
#include "src/fusion/stitch/remote_fusion.h"

namespace sinter {
namespace {

bool SamePatterns(const PatternSet& a, const PatternSet& b) {
  if (a.size() != b.size()) return false;
  for (int i = 0; i < a.size(); ++i) {
    const int other = b.PatternOf(a.at(i).pattern.vertices().First());
    if (other < 0 || !(a.at(i).pattern == b.at(other).pattern)) return false;
  }
  return true;
}

}  // namespace

std::vector<PatternSet> ExploreFusion(const StitchGraph& graph, const DeviceModel& model,
                                      const ExploreOptions& options) {
  DeltaEvaluator evaluator(graph, model, options.delta);
  PatternReduction reduction(&evaluator, options.patterns_a_vertex);
  std::vector<PatternSet> starts =
      BeamSearch(graph, reduction, {}, options.beam_width, options.delta.pace);
  if (options.remote) {
    const std::vector<ScoredPattern> remote = RemoteFusion(graph, &reduction);
    // The virtual producer's patterns are chosen first and never given up; without them the beam
    // finds other plans.
    starts.resize(1, PatternSet(graph));
    for (PatternSet& plan :
         BeamSearch(graph, reduction, remote, options.beam_width, options.delta.pace)) {
      starts.push_back(std::move(plan));
    }
  }
  std::vector<PatternSet> plans;
  for (PatternSet& plan : starts) {
    Ask(options.delta.pace);
    JoinNeighbours(&evaluator, &plan);
    MoveParts(&evaluator, options.remote, options.move_budget, &plan);
    if (options.remote) PackLevels(&evaluator, &plan);
    const bool known = std::any_of(plans.begin(), plans.end(),
                                   [&](const PatternSet& p) { return SamePatterns(p, plan); });
    if (!known) plans.push_back(std::move(plan));
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const PatternSet& a, const PatternSet& b) { return a.score() > b.score(); });
  const auto width = static_cast<size_t>(options.beam_width);
  if (plans.size() > width) plans.resize(width, PatternSet(graph));
  return plans;
}

}  // namespace sinter
