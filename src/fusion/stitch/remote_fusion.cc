#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "src/fusion/stitch/explorer.h"
#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {
namespace {

constexpr double kLeastGain = 1e-9;  // microseconds; smaller differences may be rounding errors

std::vector<int> Transparent(const StitchGraph& graph) {
  std::vector<int> list;
  for (int v = 0; v < graph.size(); ++v) {
    if (!graph.vertex(v).opaque) list.push_back(v);
  }
  return list;
}

class NeighbourJoiner {
 public:
  NeighbourJoiner(DeltaEvaluator* evaluator, PatternSet* plan)
      : evaluator_(evaluator),
        plan_(*plan),
        graph_(evaluator->graph()),
        neighbours_(NeighboursOf(graph_)),
        version_(static_cast<size_t>(graph_.size()), 0) {}

  void Run() {
    for (int v : Transparent(graph_)) {
      if (plan_.PatternOf(v) < 0) plan_.Add({StitchPattern::Of(graph_, v), 0});
    }
    for (int i = 0; i < plan_.size(); ++i) OfferAll(i);
    while (!queue_.empty()) {
      const Join join = queue_.top();
      queue_.pop();
      if (IsCurrent(join)) TryJoin(join);
    }
    Dissolve();
  }

 private:
  // Two patterns by their first vertices, and their versions when the gain was computed.
  struct Join {
    double gain;
    int a, b, version_a, version_b;
    bool operator<(const Join& o) const {  // the queue's top is the greatest
      return std::tie(gain, o.a, o.b) < std::tie(o.gain, a, b);
    }
  };

  int VersionOf(int vertex) const { return version_[static_cast<size_t>(vertex)]; }
  bool IsCurrent(const Join& join) const {
    return VersionOf(join.a) == join.version_a && VersionOf(join.b) == join.version_b;
  }

  ScoredPattern Both(int i, int j) {
    ScoredPattern both = plan_.at(i);
    both.pattern.Unite(plan_.at(j).pattern);
    both.score = evaluator_->Score(both.pattern);
    return both;
  }

  void OfferAll(int index) {
    std::set<int> others;
    plan_.at(index).pattern.vertices().ForEach([&](int v) {
      for (int n : neighbours_[static_cast<size_t>(v)]) others.insert(plan_.PatternOf(n));
    });
    others.erase(index);
    for (int other : others) Offer(index, other);
  }

  void Offer(int i, int j) {
    const double gain = Both(i, j).score - plan_.at(i).score - plan_.at(j).score;
    if (gain <= kLeastGain) return;
    int a = plan_.at(i).pattern.vertices().First(), b = plan_.at(j).pattern.vertices().First();
    if (a > b) std::swap(a, b);
    queue_.push({gain, a, b, VersionOf(a), VersionOf(b)});
  }

  void TryJoin(const Join& join) {
    Step(evaluator_->options().pace, graph_.size() / 4);
    const int i = plan_.PatternOf(join.a), j = plan_.PatternOf(join.b);
    const ScoredPattern both = Both(i, j);
    if (plan_.MakesCycle(both.pattern, {i, j})) return;
    ++version_[static_cast<size_t>(join.a)];
    ++version_[static_cast<size_t>(join.b)];
    plan_.Remove(std::max(i, j));
    plan_.Remove(std::min(i, j));
    plan_.Add(both);
    OfferAll(plan_.size() - 1);
  }

  // Dissolves patterns of one vertex.
  void Dissolve() {
    for (int i = plan_.size() - 1; i >= 0; --i) {
      if (plan_.at(i).pattern.size() == 1) plan_.Remove(i);
    }
  }

  DeltaEvaluator* evaluator_;
  PatternSet& plan_;
  const StitchGraph& graph_;
  const std::vector<std::vector<int>> neighbours_;
  std::vector<int> version_;  // of the pattern whose first vertex it is
  std::priority_queue<Join> queue_;
};

// By kernel of the plan: the number of kernels on the longest path to it from the start (or the
// end).
std::vector<int> LevelsOf(const StitchGraph& graph, const std::vector<StitchPattern>& kernels,
                          bool from_start) {
  std::vector<int> kernel_of(static_cast<size_t>(graph.size()));
  std::vector<int> levels(kernels.size(), 0);
  for (size_t k = 0; k < kernels.size(); ++k) {
    kernels[k].vertices().ForEach(
        [&](int v) { kernel_of[static_cast<size_t>(v)] = static_cast<int>(k); });
  }
  for (size_t i = 0; i < kernels.size(); ++i) {
    const size_t k = from_start ? i : kernels.size() - 1 - i;
    kernels[k].vertices().ForEach([&](int v) {
      const StitchVertex& vertex = graph.vertex(v);
      for (int other : from_start ? vertex.producers : vertex.consumers) {
        const int from = kernel_of[static_cast<size_t>(other)];
        if (from == static_cast<int>(k)) continue;
        levels[k] = std::max(levels[k], levels[static_cast<size_t>(from)] + 1);
      }
    });
  }
  return levels;
}

// Joins each pattern with the first earlier one of its level where that gains.
std::vector<ScoredPattern> Pack(const std::vector<ScoredPattern>& level,
                                DeltaEvaluator* evaluator) {
  std::vector<ScoredPattern> packed;
  for (const ScoredPattern& pattern : level) {
    bool joined = false;
    for (size_t i = 0; i < packed.size() && !joined; ++i) {
      ScoredPattern both = packed[i];
      both.pattern.Unite(pattern.pattern);
      both.score = evaluator->Score(both.pattern);
      joined = both.score > packed[i].score + pattern.score + kLeastGain;
      if (joined) packed[i] = std::move(both);
    }
    if (!joined) packed.push_back(pattern);
  }
  return packed;
}

void PackLevelsFrom(bool start, DeltaEvaluator* evaluator, PatternSet* plan) {
  const StitchGraph& graph = evaluator->graph();
  const std::vector<StitchPattern> kernels = plan->InOrder();
  const std::vector<int> levels = LevelsOf(graph, kernels, start);
  std::map<int, std::vector<ScoredPattern>> by_level;
  for (size_t k = 0; k < kernels.size(); ++k) {
    const double score = evaluator->Score(kernels[k]);
    if (graph.vertex(kernels[k].vertices().First()).opaque) continue;
    by_level[levels[k]].push_back({kernels[k], score});
  }
  PatternSet packed(graph);
  for (const auto& [level, patterns] : by_level) {
    for (const ScoredPattern& pattern : Pack(patterns, evaluator)) {
      if (pattern.pattern.size() > 1) packed.Add(pattern);
    }
  }
  *plan = std::move(packed);
}

constexpr int kFewPatterns = 12;  // with up to so many patterns a part is offered to all of them
constexpr double kLeastMoveGain = 1e-6;  // microseconds

class Mover {
 public:
  Mover(DeltaEvaluator* evaluator, bool remote, int64_t budget, PatternSet* plan)
      : evaluator_(evaluator),
        graph_(evaluator->graph()),
        neighbours_(NeighboursOf(graph_)),
        remote_(remote),
        budget_(budget),
        plan_(*plan) {}

  void Run() {
    bool moved = true;
    while (moved && budget_ > 0) {
      moved = false;
      for (int v = 0; v < graph_.size() && budget_ > 0; ++v) {
        if (!graph_.vertex(v).opaque) moved = MoveFrom(v) || moved;
      }
    }
  }

 private:
  NodeSet MembersWith(int vertex) const {
    const int index = plan_.PatternOf(vertex);
    return index >= 0 ? plan_.at(index).pattern.vertices()
                      : StitchPattern::Of(graph_, vertex).vertices();
  }

  // The parts of `members` at `vertex`.
  std::vector<NodeSet> PartsAt(int vertex, const NodeSet& members) const {
    std::vector<NodeSet> parts;
    const auto add = [&](const auto& takes) {
      NodeSet part(graph_.size());
      members.ForEach([&](int v) {
        if (takes(v)) part.Add(v);
      });
      const bool known = std::find(parts.begin(), parts.end(), part) != parts.end();
      if (!known && !part.empty()) parts.push_back(std::move(part));
    };
    const NodeSet& before = graph_.Before(vertex);
    const NodeSet& after = graph_.After(vertex);
    add([&](int v) { return v == vertex; });
    add([&](int v) { return v == vertex || before.Contains(v); });
    add([&](int v) { return v == vertex || after.Contains(v); });
    add([&](int v) { return v <= vertex; });
    add([&](int v) { return v >= vertex; });
    add([&](int v) { return v != vertex && !before.Contains(v); });
    add([&](int v) { return v != vertex && !after.Contains(v); });
    return parts;
  }

  // A vertex in each other pattern next to `part`; -1: a new pattern.
  std::vector<int> TargetsOf(const NodeSet& part, const NodeSet& members) const {
    std::set<int> patterns;
    std::vector<int> targets = {-1};
    part.ForEach([&](int v) {
      for (int n : neighbours_[static_cast<size_t>(v)]) {
        if (members.Contains(n)) continue;
        const int index = plan_.PatternOf(n);
        if (index < 0 || patterns.insert(index).second) targets.push_back(n);
      }
    });
    for (int i = 0; remote_ && plan_.size() <= kFewPatterns && i < plan_.size(); ++i) {
      const NodeSet& other = plan_.at(i).pattern.vertices();
      if (!other.Intersects(members) && patterns.insert(i).second) targets.push_back(other.First());
    }
    return targets;
  }

  bool MoveFrom(int vertex) {
    const NodeSet members = MembersWith(vertex);
    for (const NodeSet& part : PartsAt(vertex, members)) {
      for (int target : TargetsOf(part, members)) {
        if (target < 0 && part == members) continue;
        if (Try(members, part, target)) return true;
      }
    }
    return false;
  }

  double Score(const NodeSet& vertices) {
    if (vertices.empty()) return 0;
    budget_ -= vertices.size();
    return evaluator_->Score(vertices);
  }

  // The patterns and lone vertices that a move dissolves, and the two that it makes.
  struct Move {
    std::vector<NodeSet> gone;
    NodeSet smaller, larger;
    double old_score = 0, smaller_score = 0, larger_score = 0;

    double Gain() const { return smaller_score + larger_score - old_score; }
  };

  void Absorb(const NodeSet& vertices, Move* move) {
    move->gone.push_back(vertices);
    move->old_score += Score(vertices);
  }

  // Repeatedly adds the neighbour with the highest gain.
  void Grow(Move* move) {
    for (;;) {
      double best = kLeastMoveGain;
      NodeSet taken(graph_.size()), closed = move->smaller;
      closed.Unite(move->larger);
      for (int target : TargetsOf(move->larger, closed)) {
        if (target < 0) continue;
        const NodeSet other = MembersWith(target);
        NodeSet both = move->larger;
        both.Unite(other);
        const double gain = Score(both) - move->larger_score - Score(other);
        if (gain <= best) continue;
        best = gain;
        taken = other;
      }
      if (taken.empty() || budget_ <= 0) return;
      Absorb(taken, move);
      move->larger.Unite(taken);
      move->larger_score = Score(move->larger);
    }
  }

  // Moves `part` out of `members` if that raises the sum of f and the kernels can still be ordered.
  bool Try(const NodeSet& members, const NodeSet& part, int target) {
    Move move;
    Absorb(members, &move);
    move.smaller = members;
    move.smaller.Subtract(part);
    move.larger = part;
    if (target >= 0) {
      Absorb(MembersWith(target), &move);
      move.larger.Unite(move.gone.back());
    }
    move.smaller_score = Score(move.smaller);
    if (move.smaller_score <= DeltaEvaluator::kIllegal) return false;
    move.larger_score = Score(move.larger);
    if (move.larger_score <= DeltaEvaluator::kIllegal) return false;
    if (target < 0) Grow(&move);
    return move.Gain() > kLeastMoveGain && Apply(move);
  }

  bool Apply(const Move& move) {
    Ask(evaluator_->options().pace);
    PatternSet next = plan_;
    for (const NodeSet& gone : move.gone) {
      const int index = next.PatternOf(gone.First());
      if (index >= 0) next.Remove(index);
    }
    for (const NodeSet* made : {&move.smaller, &move.larger}) {
      if (made->size() < 2) continue;
      const ScoredPattern scored{StitchPattern::Of(graph_, made->ToVector()), Score(*made)};
      if (next.MakesCycle(scored.pattern)) return false;
      next.Add(scored);
    }
    plan_ = std::move(next);
    return true;
  }

  DeltaEvaluator* evaluator_;
  const StitchGraph& graph_;
  const std::vector<std::vector<int>> neighbours_;
  const bool remote_;
  int64_t budget_;
  PatternSet& plan_;
};

}  // namespace

std::vector<ScoredPattern> RemoteFusion(const StitchGraph& graph, PatternReduction* reduction) {
  return reduction->OfVirtualProducer(Transparent(graph));
}

void JoinNeighbours(DeltaEvaluator* evaluator, PatternSet* plan) {
  NeighbourJoiner(evaluator, plan).Run();
}

void PackLevels(DeltaEvaluator* evaluator, PatternSet* plan) {
  PackLevelsFrom(true, evaluator, plan);
  PackLevelsFrom(false, evaluator, plan);
}

void MoveParts(DeltaEvaluator* evaluator, bool remote, int64_t budget, PatternSet* plan) {
  Mover(evaluator, remote, budget, plan).Run();
}

}  // namespace sinter
