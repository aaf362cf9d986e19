#include "src/fusion/stitch/beam_search.h"

#include <algorithm>
#include <utility>

namespace sinter {
namespace {

// A plan of the beam, with one more pattern or without.
struct Extension {
  size_t plan = 0;
  const ScoredPattern* pattern = nullptr;
  double score = 0;
};

void Step(const std::vector<ScoredPattern>& candidates, size_t width,
          std::vector<PatternSet>* beam) {
  std::vector<Extension> extensions;
  for (size_t i = 0; i < beam->size(); ++i) {
    const PatternSet& plan = (*beam)[i];
    extensions.push_back({i, nullptr, plan.score()});
    for (const ScoredPattern& candidate : candidates) {
      if (candidate.score <= 0 || plan.Overlaps(candidate.pattern)) continue;
      extensions.push_back({i, &candidate, plan.score() + candidate.score});
    }
  }
  std::stable_sort(extensions.begin(), extensions.end(),
                   [](const Extension& a, const Extension& b) { return a.score > b.score; });
  std::vector<PatternSet> next;
  for (const Extension& e : extensions) {
    if (next.size() == width) break;
    const PatternSet& plan = (*beam)[e.plan];
    if (e.pattern != nullptr && plan.MakesCycle(e.pattern->pattern)) continue;
    next.push_back(plan);
    if (e.pattern != nullptr) next.back().Add(*e.pattern);
  }
  *beam = std::move(next);
}

bool AnyGains(const std::vector<ScoredPattern>& candidates) {
  return std::any_of(candidates.begin(), candidates.end(),
                     [](const ScoredPattern& c) { return c.score > 0; });
}

}  // namespace

std::vector<PatternSet> BeamSearch(const StitchGraph& graph, const PatternReduction& candidates,
                                   const std::vector<ScoredPattern>& virtual_candidates, int width,
                                   Pace* pace) {
  std::vector<PatternSet> beam = {PatternSet(graph)};
  const auto limit = static_cast<size_t>(width);
  if (AnyGains(virtual_candidates)) Step(virtual_candidates, limit, &beam);
  for (int v = 0; v < graph.size(); ++v) {
    Ask(pace);
    if (AnyGains(candidates.Of(v))) Step(candidates.Of(v), limit, &beam);
  }
  return beam;
}

}  // namespace sinter
