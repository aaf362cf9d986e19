// StitchPattern: vertices that share one kernel.
#ifndef SINTER_SRC_FUSION_STITCH_PATTERN_H_
#define SINTER_SRC_FUSION_STITCH_PATTERN_H_

#include <vector>

#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {

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

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_PATTERN_H_
