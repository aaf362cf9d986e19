// One call of a group: a kernel whose blocks wait for those of the same number on other ranks.
#pragma once
#include "ranks/wait.cuh"

namespace sinter {

// The whole kernel: any grid, the same on all ranks, and no more blocks than the GPU can hold at
// once. All threads call. Work is made of `args`, the group and a wait:
// - prepare(): while earlier kernels run. It reads what never changes, and brings the rest to L2.
// - ask(): loads what is sent first, beside the call's number, without which nothing can be sent.
// - run(): sends and waits; false: the group has ended.
// kSendsHeader: this kernel sends the call's header, not the one before it (Pusher).
template <class Work, bool kSendsHeader = true, class Arguments>
SINTER_DEVICE void rank_call(const Arguments& args) {
  launch_dependents();
  Group<Work::kRanks> group(args.group);
  const CallHeader call{static_cast<u32>(args.rows), args.digest};
  RankWait<Work::kRanks> wait{group, call};
  Work work{args, group, wait};
  work.prepare();
  // An earlier call of this group must have ended before this one sends: see Group.
  wait_for_predecessors();
  group.begin();
  work.ask();
  if (group.ended != 0) {
    if (blockIdx.x == 0 && threadIdx.x == 0) store_system(group.control->host_words, group.ended);
    return;
  }
  if (kSendsHeader && blockIdx.x == 0 && threadIdx.x < kVoters) push_header(group, call);
  if (!work.run()) return;
  // Every thread of the block has read the epoch. The next kernel alone reads what follows, so that
  // nothing needs a fence, which would wait for stores on their way to other GPUs.
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (fetch_add_gpu(&args.group->blocks_done, 1) + 1 == gridDim.x) group.advance();
}

}  // namespace sinter
