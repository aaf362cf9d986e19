#include "src/fusion/stitch/kernel_order.h"

#include <cstddef>
#include <utility>

namespace sinter {

bool OrderKernels(const StitchGraph& graph, std::vector<CostedKernel>* kernels) {
  std::vector<CostedKernel> open = std::move(*kernels), sorted;
  const auto waits = [&](const CostedKernel& kernel) {
    NodeSet needed(graph.size());
    kernel.vertices.ForEach([&](int v) { needed.Unite(graph.Before(v)); });
    for (const CostedKernel& other : open) {
      if (&other != &kernel && needed.Intersects(other.vertices)) return true;
    }
    return false;
  };
  while (!open.empty()) {
    size_t next = 0;
    while (next < open.size() && waits(open[next])) ++next;
    if (next == open.size()) return false;
    sorted.push_back(std::move(open[next]));
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(next));
  }
  *kernels = std::move(sorted);
  return true;
}

}  // namespace sinter
