#include "src/fusion/stitch/pattern.h"

#include <algorithm>

namespace sinter {

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

}  // namespace sinter
