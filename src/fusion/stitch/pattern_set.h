// PatternSet: disjoint patterns whose kernels can run one after another.
#ifndef SINTER_SRC_FUSION_STITCH_PATTERN_SET_H_
#define SINTER_SRC_FUSION_STITCH_PATTERN_SET_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "src/fusion/stitch/candidates.h"

namespace sinter {

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

#endif  // SINTER_SRC_FUSION_STITCH_PATTERN_SET_H_
