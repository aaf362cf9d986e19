#include "src/fusion/workspace_layout.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "src/base/ceil_div.h"
#include "src/product/schedule.h"

namespace sinter {
namespace {

struct Range {
  uint64_t begin = 0, end = 0;
  bool operator<(const Range& o) const {
    return std::make_pair(begin, end) < std::make_pair(o.begin, o.end);
  }
};

// Whether `later` begins when no kernel can still read `earlier`. A kernel may start while the one
// before it runs, and lines that its SM then reads into L1 may still be there afterwards.
bool Apart(const WorkspaceItem& earlier, const WorkspaceItem& later) {
  return later.first > earlier.last + 1;
}

// The smallest gap of at least `bytes` between `taken`, which is sorted and may overlap.
uint64_t BestFit(const std::vector<Range>& taken, uint64_t bytes) {
  uint64_t best = 0, best_gap = std::numeric_limits<uint64_t>::max();
  uint64_t free_from = kWorkspaceFlagBytes;
  for (const Range& range : taken) {
    if (range.begin > free_from) {
      const uint64_t gap = range.begin - free_from;
      if (gap >= bytes && gap < best_gap) {
        best = free_from;
        best_gap = gap;
      }
    }
    free_from = std::max(free_from, range.end);
  }
  return best_gap == std::numeric_limits<uint64_t>::max() ? free_from : best;
}

}  // namespace

WorkspaceLayout LayOutWorkspace(const std::vector<WorkspaceItem>& items) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (items[a].bytes != items[b].bytes) return items[a].bytes > items[b].bytes;
    return items[a].first < items[b].first;
  });
  WorkspaceLayout layout;
  layout.offsets.assign(items.size(), kWorkspaceFlagBytes);
  std::vector<size_t> placed;
  for (size_t i : order) {
    if (items[i].bytes == 0) continue;
    std::vector<Range> taken;
    for (size_t p : placed) {
      if (Apart(items[p], items[i]) || Apart(items[i], items[p])) continue;
      taken.push_back(
          {layout.offsets[p], layout.offsets[p] + RoundUp(items[p].bytes, kWorkspaceAlignment)});
    }
    std::sort(taken.begin(), taken.end());
    layout.offsets[i] = BestFit(taken, RoundUp(items[i].bytes, kWorkspaceAlignment));
    layout.end =
        std::max(layout.end, layout.offsets[i] + RoundUp(items[i].bytes, kWorkspaceAlignment));
    placed.push_back(i);
  }
  return layout;
}

}  // namespace sinter
