// Places: which accesses of a plan's kernels are legal. Knows buffers, extents and the order of
// kernels; what a kernel computes is asked elsewhere (meaning.h).
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

// Is shown a plan's kernels in their order. Holds that
// - what lies in a buffer of the chain ends inside it, at every number of rows; inputs are read
//   only; an output that may share an input's buffer is written when nobody reads that input later;
// - what lies in the workspace begins behind the header and ends before the workspace does; flags
//   and barrier lie where the header has them;
// - nothing that a kernel writes lies over anything else that it touches;
// - a read of the workspace lies inside what an earlier kernel wrote and nobody wrote over since;
// - a place is written again only when who used it before cannot run any more.
class Places {
 public:
  Places(const Chain& chain, const LaunchRows& rows, uint64_t workspace_bytes);

  absl::Status Add(const KernelAccesses& kernel);

  // Behind the last kernel. The workspace has as many bytes as its regions need, and they need no
  // more than all results of the chain side by side, and what kernels keep there for themselves.
  absl::Status Finish() const;

 private:
  // A place in the workspace that was written, or what is left of one.
  struct Region {
    uint64_t end = 0;
    int writer = -1;      // kernel; -1: nobody may read it
    int last = -1;        // kernel that touched it last
    int last_by_l1 = -1;  // that did so through an L1 cache
  };
  using Regions = std::map<uint64_t, Region>;  // by begin; apart from one another

  absl::Status CheckChainBuffer(const BufferAccess& access) const;
  absl::Status CheckWorkspaceRange(const BufferAccess& access) const;
  absl::Status CheckApart(const std::vector<BufferAccess>& list) const;
  absl::Status Read(const BufferAccess& access, bool through_l1);
  absl::Status Write(const BufferAccess& access, bool through_l1);
  absl::Status CheckSharedBuffers(const std::vector<BufferAccess>& list);
  void Split(uint64_t at);

  const Chain& chain_;
  const uint64_t workspace_bytes_;
  uint64_t most_needed_;                          // bytes that a plan's regions may end at
  std::vector<std::array<uint64_t, 3>> buffers_;  // bytes, as BufferAccess::bytes
  std::vector<bool> gone_;                        // inputs whose buffer an output took
  Regions regions_;
  int kernel_ = 0;
  uint64_t needed_ = 0;  // bytes of the workspace
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FIT_PLACES_H_
