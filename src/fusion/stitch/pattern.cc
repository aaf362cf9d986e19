#include "src/fusion/stitch/pattern.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "src/fusion/stitch/evaluators.h"

namespace sinter {
namespace {

bool BetterPattern(const ScoredPattern& a, const ScoredPattern& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.pattern.vertices().Before(b.pattern.vertices());
}

}  // namespace

StitchPattern StitchPattern::Of(const StitchGraph& graph, int vertex) {
  StitchPattern pattern;
  pattern.vertices_ = NodeSet(graph.size());
  pattern.vertices_.Add(vertex);
  pattern.before_ = graph.Before(vertex);
  pattern.after_ = graph.After(vertex);
  return pattern;
}

StitchPattern StitchPattern::Of(const StitchGraph& graph, const std::vector<int>& vertices) {
  StitchPattern pattern;
  pattern.vertices_ = pattern.before_ = pattern.after_ = NodeSet(graph.size());
  for (int v : vertices) pattern.Unite(Of(graph, v));
  return pattern;
}

void StitchPattern::Unite(const StitchPattern& o) {
  vertices_.Unite(o.vertices_);
  before_.Unite(o.before_);
  after_.Unite(o.after_);
}

std::vector<ValueId> StitchPattern::Values(const StitchGraph& graph) const {
  std::vector<ValueId> values;
  vertices_.ForEach([&](int v) {
    const std::vector<ValueId>& of = graph.vertex(v).values;
    values.insert(values.end(), of.begin(), of.end());
  });
  std::sort(values.begin(), values.end());
  return values;
}

void CandidateList::Offer(StitchPattern pattern, DeltaEvaluator* evaluator) {
  const double score = evaluator->Score(pattern);
  if (score > DeltaEvaluator::kIllegal) Offer({std::move(pattern), score});
}

void CandidateList::Offer(const ScoredPattern& scored) {
  for (const ScoredPattern& have : list_) {
    if (have.pattern == scored.pattern) return;
  }
  list_.insert(std::upper_bound(list_.begin(), list_.end(), scored, BetterPattern), scored);
  if (list_.size() > limit_) list_.pop_back();
}

PatternSet::PatternSet(const StitchGraph& graph)
    : graph_(&graph), pattern_of_(static_cast<size_t>(graph.size()), -1), covered_(graph.size()) {}

bool PatternSet::MakesCycle(const StitchPattern& pattern, const std::vector<int>& without) const {
  NodeSet reached = pattern.after();
  reached.Subtract(pattern.vertices());
  std::vector<bool> taken(patterns_.size(), false);
  for (int index : without) taken[static_cast<size_t>(index)] = true;
  NodeSet fresh = reached;
  for (;;) {
    NodeSet next(graph_->size());
    fresh.ForEach([&](int v) {
      const int index = PatternOf(v);
      if (index < 0 || taken[static_cast<size_t>(index)]) return;
      taken[static_cast<size_t>(index)] = true;
      next.Unite(at(index).pattern.after());
    });
    if (next.Intersects(pattern.vertices())) return true;
    next.Subtract(reached);
    if (next.empty()) return false;
    reached.Unite(next);
    fresh = std::move(next);
  }
}

void PatternSet::Add(const ScoredPattern& scored) {
  const int index = static_cast<int>(patterns_.size());
  scored.pattern.vertices().ForEach([&](int v) { pattern_of_[static_cast<size_t>(v)] = index; });
  covered_.Unite(scored.pattern.vertices());
  patterns_.push_back(std::make_shared<const ScoredPattern>(scored));
  score_ += scored.score;
}

void PatternSet::Remove(int index) {
  const auto renumber = [&](int from, int to) {
    at(from).pattern.vertices().ForEach([&](int v) { pattern_of_[static_cast<size_t>(v)] = to; });
  };
  renumber(index, -1);
  covered_.Subtract(at(index).pattern.vertices());
  score_ -= at(index).score;
  if (index + 1 < size()) {
    renumber(size() - 1, index);
    patterns_[static_cast<size_t>(index)] = std::move(patterns_.back());
  }
  patterns_.pop_back();
}

std::vector<StitchPattern> PatternSet::InOrder() const {
  // Kernels: patterns by index, then the lone vertices.
  std::vector<StitchPattern> kernels;
  std::vector<int> kernel_of = pattern_of_;
  for (const auto& scored : patterns_) kernels.push_back(scored->pattern);
  for (int v = 0; v < graph_->size(); ++v) {
    if (PatternOf(v) >= 0) continue;
    kernel_of[static_cast<size_t>(v)] = static_cast<int>(kernels.size());
    kernels.push_back(StitchPattern::Of(*graph_, v));
  }
  std::vector<std::vector<int>> next(kernels.size());
  std::vector<int> missing(kernels.size(), 0), last(kernels.size(), -1);
  for (int v = 0; v < graph_->size(); ++v) {
    const int from = kernel_of[static_cast<size_t>(v)];
    last[static_cast<size_t>(from)] = v;
    for (int c : graph_->vertex(v).consumers) {
      const int to = kernel_of[static_cast<size_t>(c)];
      if (to == from) continue;
      next[static_cast<size_t>(from)].push_back(to);
      ++missing[static_cast<size_t>(to)];
    }
  }
  using Entry = std::pair<int, int>;  // last vertex, kernel
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  const auto offer = [&](int k) {
    if (missing[static_cast<size_t>(k)] == 0) ready.emplace(last[static_cast<size_t>(k)], k);
  };
  for (size_t k = 0; k < kernels.size(); ++k) offer(static_cast<int>(k));
  std::vector<StitchPattern> order;
  while (!ready.empty()) {
    const int k = ready.top().second;
    ready.pop();
    order.push_back(kernels[static_cast<size_t>(k)]);
    for (int to : next[static_cast<size_t>(k)]) {
      --missing[static_cast<size_t>(to)];
      offer(to);
    }
  }
  return order;
}

}  // namespace sinter
