// StitchPattern: vertices that share one kernel; lists and sets of patterns.
#ifndef SINTER_SRC_FUSION_STITCH_PATTERN_H_
#define SINTER_SRC_FUSION_STITCH_PATTERN_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {

class DeltaEvaluator;

// FusionStitching's P_i: a set of vertices, with the sets that its legality depends on.
class StitchPattern {
 public:
  StitchPattern() = default;
  static StitchPattern Of(const StitchGraph& graph, int vertex);
  static StitchPattern Of(const StitchGraph& graph, const std::vector<int>& vertices);

  void Unite(const StitchPattern& o);

  const NodeSet& vertices() const { return vertices_; }
  const NodeSet& before() const { return before_; }  // members and all that they need
  const NodeSet& after() const { return after_; }    // members and all that need them
  int size() const { return vertices_.size(); }
  bool empty() const { return vertices_.empty(); }
  // Whether no path leaves the pattern and comes back: its kernel would wait for one that waits for
  // it.
  bool IsConvex() const { return vertices_.CoversCommonOf(before_, after_); }

  // The ops of all members, ascending.
  std::vector<ValueId> Values(const StitchGraph& graph) const;

  bool operator==(const StitchPattern& o) const { return vertices_ == o.vertices_; }

 private:
  NodeSet vertices_, before_, after_;
};

struct ScoredPattern {
  StitchPattern pattern;
  double score = 0;  // f(P)
};

// At most `limit` different legal patterns, the highest f first; of equal f the one with the
// lexicographically first vertices.
class CandidateList {
 public:
  explicit CandidateList(size_t limit) : limit_(limit) {}

  // Keeps `pattern` if it is legal and among the best.
  void Offer(StitchPattern pattern, DeltaEvaluator* evaluator);
  void Offer(const ScoredPattern& scored);
  const std::vector<ScoredPattern>& list() const { return list_; }

 private:
  size_t limit_;
  std::vector<ScoredPattern> list_;
};

// PatternSet: disjoint patterns whose kernels can run one after another.

// A vertex in no pattern has a kernel of its own. The graph must outlive the set.
class PatternSet {
 public:
  explicit PatternSet(const StitchGraph& graph);

  double score() const { return score_; }  // accumulated f
  int size() const { return static_cast<int>(patterns_.size()); }
  const ScoredPattern& at(int index) const { return *patterns_[static_cast<size_t>(index)]; }
  // Index of the pattern with `vertex`; -1.
  int PatternOf(int vertex) const { return pattern_of_[static_cast<size_t>(vertex)]; }

  bool Overlaps(const StitchPattern& pattern) const {
    return covered_.Intersects(pattern.vertices());
  }
  // Whether a path leaves `pattern`, passes vertices and patterns (a pattern's kernel needs all
  // that any member needs), and comes back. Patterns with indices in `without` count as dissolved.
  bool MakesCycle(const StitchPattern& pattern, const std::vector<int>& without = {}) const;

  // Precondition: it neither overlaps nor makes a cycle.
  void Add(const ScoredPattern& scored);
  // Takes pattern `index` out; the last pattern takes its index.
  void Remove(int index);

  // Patterns and lone vertices in an executable order: of those that can come next, the one with
  // the smallest last vertex.
  std::vector<StitchPattern> InOrder() const;

 private:
  const StitchGraph* graph_;
  std::vector<std::shared_ptr<const ScoredPattern>> patterns_;  // shared by the plans of a beam
  std::vector<int> pattern_of_;
  NodeSet covered_;
  double score_ = 0;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_PATTERN_H_
