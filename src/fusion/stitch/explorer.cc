#include "src/fusion/stitch/explorer.h"

#include <algorithm>
#include <utility>

namespace sinter {
namespace {

constexpr size_t kGroup = 2;  // consumers whose candidates are enumerated together

bool SamePatterns(const PatternSet& a, const PatternSet& b) {
  if (a.size() != b.size()) return false;
  for (int i = 0; i < a.size(); ++i) {
    const int other = b.PatternOf(a.at(i).pattern.vertices().First());
    if (other < 0 || !(a.at(i).pattern == b.at(other).pattern)) return false;
  }
  return true;
}

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
