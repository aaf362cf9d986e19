// One call of a group: a kernel whose blocks wait for those of the same number on other ranks.
#pragma once
#include "ranks/wait.cuh"

namespace sinter {

// The whole kernel: any grid, the same on all ranks, and no more blocks than the GPU can hold at
// once. All threads call. `work(group, wait)` sends and waits; false: the group has ended.
template <int kRanks, class Work>
SINTER_DEVICE void rank_call(GroupControl* control, const CallHeader& call, Work&& work) {
  launch_dependents();
  // An earlier call of this group must have ended before this one sends: see Group.
  wait_for_predecessors();
  const Group<kRanks> group(control);
  if (group.ended != 0) {
    if (blockIdx.x == 0 && threadIdx.x == 0) store_system(group.control->host_words, group.ended);
    return;
  }
  if (blockIdx.x == 0 && threadIdx.x < kVoters) push_header(group, call);
  RankWait<kRanks> wait{group, call};
  if (!work(group, wait)) return;
  // Every thread of the block has read the epoch. The next kernel alone reads what follows, so that
  // nothing needs a fence, which would wait for stores on their way to other GPUs.
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (fetch_add_gpu(&control->blocks_done, 1) + 1 == gridDim.x) group.advance();
}

}  // namespace sinter
