// WorkspaceLayout: where what kernels hand over lies, so that what is not needed at the same time
// shares its place.
#ifndef SINTER_SRC_FUSION_WORKSPACE_LAYOUT_H_
#define SINTER_SRC_FUSION_WORKSPACE_LAYOUT_H_

#include <cstdint>
#include <vector>

namespace sinter {

struct WorkspaceItem {
  uint64_t bytes = 0;
  int first = 0, last = 0;  // kernels of the plan between which it lives, both included
};

struct WorkspaceLayout {
  std::vector<uint64_t> offsets;  // as the items
  uint64_t end = 0;               // of the last byte; 0 without items
};

constexpr uint64_t kWorkspaceAlignment = 1024;

// Greedy best-fit: the largest item first (then the earliest, then the first in the list), each in
// the smallest gap between items of overlapping lives that holds it, else behind them. Offsets are
// multiples of kWorkspaceAlignment, from kWorkspaceFlagBytes on. Items of no bytes take none.
WorkspaceLayout LayOutWorkspace(const std::vector<WorkspaceItem>& items);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_WORKSPACE_LAYOUT_H_
