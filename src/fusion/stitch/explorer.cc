#include "src/fusion/stitch/explorer.h"

#include <algorithm>
#include <utility>

#include "src/fusion/stitch/remote_fusion.h"

namespace sinter {
namespace {

bool SamePatterns(const PatternSet& a, const PatternSet& b) {
  if (a.size() != b.size()) return false;
  for (int i = 0; i < a.size(); ++i) {
    int first = -1;
    a.at(i).pattern.vertices().ForEach([&](int v) { first = v; });
    const int other = b.PatternOf(first);
    if (other < 0 || !(a.at(i).pattern == b.at(other).pattern)) return false;
  }
  return true;
}

}  // namespace

std::vector<PatternSet> ExploreFusion(const StitchGraph& graph, const DeviceModel& model,
                                      const ExploreOptions& options) {
  DeltaEvaluator evaluator(graph, model, options.delta);
  PatternReduction reduction(&evaluator, options.patterns_a_vertex);
  std::vector<ScoredPattern> remote;
  if (options.remote) remote = RemoteFusion(graph, &reduction);
  std::vector<PatternSet> plans;
  for (PatternSet& plan : BeamSearch(graph, reduction, remote, options.beam_width)) {
    JoinNeighbours(&evaluator, &plan);
    if (options.remote) PackLevels(&evaluator, &plan);
    const bool known = std::any_of(plans.begin(), plans.end(),
                                   [&](const PatternSet& p) { return SamePatterns(p, plan); });
    if (!known) plans.push_back(std::move(plan));
  }
  std::stable_sort(plans.begin(), plans.end(),
                   [](const PatternSet& a, const PatternSet& b) { return a.score() > b.score(); });
  return plans;
}

}  // namespace sinter
