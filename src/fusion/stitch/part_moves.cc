#include "src/fusion/stitch/part_moves.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "src/fusion/stitch/neighbours.h"

namespace sinter {
namespace {

constexpr int kFewPatterns = 12;     // with up to so many patterns a part is offered to all of them
constexpr double kLeastGain = 1e-6;  // microseconds

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
      double best = kLeastGain;
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
    return move.Gain() > kLeastGain && Apply(move);
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

void MoveParts(DeltaEvaluator* evaluator, bool remote, int64_t budget, PatternSet* plan) {
  Mover(evaluator, remote, budget, plan).Run();
}

}  // namespace sinter
