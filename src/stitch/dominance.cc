#include "src/stitch/dominance.h"

#include <cstddef>
#include <utility>

namespace sinter {
namespace {

// Reachable nodes in post-order (successors first, except along cycles). Uses an explicit stack.
std::vector<int> PostOrder(const std::vector<std::vector<int>>& successors) {
  std::vector<int> order;
  std::vector<bool> seen(successors.size());
  std::vector<std::pair<int, size_t>> stack = {{0, 0}};
  seen[0] = true;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    const std::vector<int>& to = successors[static_cast<size_t>(node)];
    if (next == to.size()) {
      order.push_back(node);
      stack.pop_back();
      continue;
    }
    const int child = to[next++];
    if (seen[static_cast<size_t>(child)]) continue;
    seen[static_cast<size_t>(child)] = true;
    stack.push_back({child, 0});
  }
  return order;
}

}  // namespace

std::vector<int> ImmediateDominators(const std::vector<std::vector<int>>& successors) {
  const std::vector<int> order = PostOrder(successors);
  std::vector<int> number(successors.size(), -1);
  for (size_t i = 0; i < order.size(); ++i)
    number[static_cast<size_t>(order[i])] = static_cast<int>(i);
  std::vector<std::vector<int>> predecessors(successors.size());
  for (const int node : order) {
    for (const int to : successors[static_cast<size_t>(node)]) {
      predecessors[static_cast<size_t>(to)].push_back(node);
    }
  }
  std::vector<int> immediate(successors.size(), -1);
  immediate[0] = 0;
  // The nearest common dominator of `a` and `b`.
  const auto meet = [&](int a, int b) {
    while (a != b) {
      int& lower = number[static_cast<size_t>(a)] < number[static_cast<size_t>(b)] ? a : b;
      lower = immediate[static_cast<size_t>(lower)];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = order.size() - 1; i-- > 0;) {  // the entry is last
      const int node = order[i];
      int best = -1;
      for (const int from : predecessors[static_cast<size_t>(node)]) {
        if (immediate[static_cast<size_t>(from)] < 0) continue;
        best = best < 0 ? from : meet(from, best);
      }
      changed |= immediate[static_cast<size_t>(node)] != best;
      immediate[static_cast<size_t>(node)] = best;
    }
  }
  return immediate;
}

bool Dominates(const std::vector<int>& immediate, int over, int node) {
  if (immediate[static_cast<size_t>(node)] < 0) return false;
  while (node != over && node != 0) node = immediate[static_cast<size_t>(node)];
  return node == over;
}

}  // namespace sinter
