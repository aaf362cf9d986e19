#include "src/product/paper/paper_search.h"

#include <algorithm>

namespace sinter {

PaperSearchResult PaperSearch(const PaperProblem& problem, const DeviceModel& model, size_t top_k) {
  PaperSearchResult result;
  PaperSpace(problem, model, RuleSet::All()).ForEach([&](const PaperPoint& point) {
    result.survivors++;
    if (!Realisable(problem, point)) return;
    result.realisable++;
    const double cost = MinimaxCost(AnalyzeDataflow(problem, point, model), point, model);
    if (result.best.size() == top_k && !(top_k > 0 && cost < result.best.back().cost_us)) return;
    const auto at = std::upper_bound(
        result.best.begin(), result.best.end(), cost,
        [](double c, const PaperCandidate& candidate) { return c < candidate.cost_us; });
    result.best.insert(at, {point, cost});
    if (result.best.size() > top_k) result.best.pop_back();
  });
  return result;
}

}  // namespace sinter
