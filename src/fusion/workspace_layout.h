// WorkspaceLayout: places of tensors between kernels. Tensors that are not needed at the same time
// may share a place.
#ifndef SINTER_SRC_FUSION_WORKSPACE_LAYOUT_H_
#define SINTER_SRC_FUSION_WORKSPACE_LAYOUT_H_

#include <cstdint>
#include <vector>

namespace sinter {

struct WorkspaceItem {
  uint64_t bytes = 0;
  int first = 0, last = 0;  // first and last kernel of its lifetime
};

struct WorkspaceLayout {
  std::vector<uint64_t> offsets;  // of the items, in order
  uint64_t end = 0;               // end of the last item; 0 without items
};

constexpr uint64_t kWorkspaceAlignment = 1024;

// Greedy best-fit: the largest item first (then the earliest, then the first in the list), each in
// the smallest gap between items of overlapping lifetimes that holds it, else after them. Offsets
// are multiples of kWorkspaceAlignment, from kWorkspaceFlagBytes on. Empty items take no place.
WorkspaceLayout LayOutWorkspace(const std::vector<WorkspaceItem>& items);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_WORKSPACE_LAYOUT_H_
