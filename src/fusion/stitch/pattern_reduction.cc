#include "src/fusion/stitch/pattern_reduction.h"

#include <utility>

namespace sinter {
namespace {

constexpr size_t kGroup = 2;  // consumers whose candidates are enumerated together

}  // namespace

PatternReduction::PatternReduction(DeltaEvaluator* evaluator, int k)
    : evaluator_(evaluator),
      graph_(evaluator->graph()),
      k_(static_cast<size_t>(k)),
      candidates_(static_cast<size_t>(graph_.size())) {
  for (int v = graph_.size() - 1; v >= 0; --v) {
    if (graph_.vertex(v).opaque) continue;
    const std::vector<int>& consumers = graph_.vertex(v).consumers;
    candidates_[static_cast<size_t>(v)] = Reduce(v, consumers, 0, consumers.size()).list();
  }
}

std::vector<ScoredPattern> PatternReduction::OfVirtualProducer(const std::vector<int>& consumers) {
  return Reduce(-1, consumers, 0, consumers.size()).list();
}

StitchPattern PatternReduction::Start(int vertex) const {
  return vertex < 0 ? StitchPattern::Of(graph_, std::vector<int>())
                    : StitchPattern::Of(graph_, vertex);
}

CandidateList PatternReduction::Reduce(int vertex, const std::vector<int>& consumers, size_t begin,
                                       size_t end) {
  if (end - begin <= kGroup) return Enumerate(vertex, consumers, begin, end);
  const size_t middle = begin + (end - begin) / 2;
  return Merge(Reduce(vertex, consumers, begin, middle), Reduce(vertex, consumers, middle, end));
}

// Combinations of `vertex` with one candidate or none of each consumer.
CandidateList PatternReduction::Enumerate(int vertex, const std::vector<int>& consumers,
                                          size_t begin, size_t end) {
  std::vector<StitchPattern> partial = {Start(vertex)};
  for (size_t i = begin; i < end; ++i) {
    const size_t without = partial.size();
    for (const ScoredPattern& choice : Of(consumers[i])) {
      for (size_t p = 0; p < without; ++p) {
        partial.push_back(partial[p]);
        partial.back().Unite(choice.pattern);
      }
    }
  }
  CandidateList best(k_);
  for (StitchPattern& pattern : partial) {
    if (!pattern.empty()) best.Offer(std::move(pattern), evaluator_);
  }
  return best;
}

// The best candidates of either group, and of their pairwise unions.
CandidateList PatternReduction::Merge(const CandidateList& a, const CandidateList& b) {
  CandidateList best(k_);
  for (const ScoredPattern& scored : a.list()) best.Offer(scored);
  for (const ScoredPattern& scored : b.list()) best.Offer(scored);
  for (const ScoredPattern& x : a.list()) {
    for (const ScoredPattern& y : b.list()) {
      StitchPattern both = x.pattern;
      both.Unite(y.pattern);
      best.Offer(std::move(both), evaluator_);
    }
  }
  return best;
}

}  // namespace sinter
