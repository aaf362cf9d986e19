// Places: which accesses of a plan's kernels are legal. Knows buffers, extents and the order of
// kernels; meaning.h checks what kernels compute.
#ifndef SINTER_SRC_FUSION_FIT_PLACES_H_
#define SINTER_SRC_FUSION_FIT_PLACES_H_

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "src/chain/chain.h"
#include "src/fusion/fit/access.h"

namespace sinter {

// Is given a plan's kernels in order. Checks that
// - an access to a buffer of the chain ends inside it, at every number of rows; inputs are only
//   read; an output in an input's buffer is written when no later kernel reads that input;
// - an access to the workspace lies between the header and the workspace's end; flags and barrier
//   are at their offsets in the header;
// - nothing that a kernel writes overlaps anything else that it touches;
// - a read of the workspace lies inside a region that an earlier kernel wrote and nobody has
//   overwritten;
// - a place is written again only when its earlier users cannot run any more.
class Places {
 public:
  Places(const Chain& chain, const LaunchRows& rows, uint64_t workspace_bytes);

  absl::Status Add(const KernelAccesses& kernel);

  // Call it after the last kernel. Checks that the workspace has the bytes that its regions need,
  // and that these are at most those of all results of the chain side by side plus the kernels' own
  // workspace.
  absl::Status Finish() const;

 private:
  // A region of the workspace that was written, or the rest of one.
  struct Region {
    uint64_t end = 0;
    int writer = -1;      // kernel; -1: nobody may read it
    int last = -1;        // last kernel that touched it
    int last_by_l1 = -1;  // last kernel that touched it through an L1 cache
  };
  using Regions = std::map<uint64_t, Region>;  // by begin; disjoint

  absl::Status CheckChainBuffer(const BufferAccess& access) const;
  absl::Status CheckWorkspaceRange(const BufferAccess& access) const;
  absl::Status CheckApart(const std::vector<BufferAccess>& list) const;
  absl::Status Read(const BufferAccess& access, bool through_l1);
  absl::Status Write(const BufferAccess& access, bool through_l1);
  absl::Status CheckSharedBuffers(const std::vector<BufferAccess>& list);
  void Split(uint64_t at);

  const Chain& chain_;
  const uint64_t workspace_bytes_;
  uint64_t most_needed_;                          // bound of the end of a plan's regions
  std::vector<std::array<uint64_t, 3>> buffers_;  // bytes, as BufferAccess::bytes
  std::vector<bool> gone_;                        // inputs whose buffer an output has taken
  Regions regions_;
  int kernel_ = 0;
  uint64_t needed_ = 0;  // bytes of the workspace
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FIT_PLACES_H_
