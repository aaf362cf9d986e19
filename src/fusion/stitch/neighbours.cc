#include "src/fusion/stitch/neighbours.h"

#include <cstddef>
#include <set>

namespace sinter {
namespace {

constexpr size_t kNearReaders = 4;

}  // namespace

std::vector<std::vector<int>> NeighboursOf(const StitchGraph& graph) {
  std::vector<std::set<int>> sets(static_cast<size_t>(graph.size()));
  const auto link = [&](int a, int b) {
    if (graph.vertex(a).opaque || graph.vertex(b).opaque) return;
    sets[static_cast<size_t>(a)].insert(b);
    sets[static_cast<size_t>(b)].insert(a);
  };
  for (int v = 0; v < graph.size(); ++v) {
    for (int c : graph.vertex(v).consumers) link(v, c);
  }
  for (int t = 0; t < graph.num_tensors(); ++t) {
    std::vector<int> readers;
    for (int v : graph.tensor(t).consumers) {
      if (!graph.vertex(v).opaque) readers.push_back(v);
    }
    for (size_t i = 0; i < readers.size(); ++i) {
      for (size_t j = i + 1; j < readers.size() && j <= i + kNearReaders; ++j) {
        link(readers[i], readers[j]);
      }
    }
  }
  std::vector<std::vector<int>> lists;
  for (const std::set<int>& set : sets) lists.emplace_back(set.begin(), set.end());
  return lists;
}

}  // namespace sinter
