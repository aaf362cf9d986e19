// How a kernel that computes what is summed sends it: word by word as results come, into this
// rank's slots in the other ranks' rooms. It and the kernel that sums (kernels/all_reduce.cuh with
// Config::kPushedColumns) are one call of the group; no other call comes between them.
#pragma once
#include "ranks/call.cuh"
#include "ranks/room.cuh"

namespace sinter {

// As one thread sees it. Made behind wait_for_predecessors(): once this rank's earlier call has
// ended (see Group). Each word is sent once.
template <int kRanks>
class Pusher {
 public:
  // `sends_header`: in one warp of the rank.
  SINTER_DEVICE Pusher(GroupControl* room, const CallHeader& call, bool sends_header) {
    Group<kRanks> group(room);
    group.begin();
    const int rank = static_cast<int>(group.rank);
#pragma unroll
    for (int i = 0; i < kRanks - 1; ++i)
      slots_[i] = group.ended != 0 ? nullptr : group.slot(i + (i >= rank ? 1 : 0), rank);
    if (sends_header && group.ended == 0) push_header(group, call);
  }

  // Vector or word `at` of the message.
  SINTER_DEVICE void vector(u64 at, Word4 v) const {
    v = occupied(v);
    if (slots_[0] == nullptr) return;
#pragma unroll
    for (Word4* slot : slots_) store_system(slot + at, v);
  }
  SINTER_DEVICE void word(u64 at, u32 v) const {
    if (slots_[0] == nullptr) return;
#pragma unroll
    for (Word4* slot : slots_) store_system(&slot->x + at, occupied_word(v));
  }

 private:
  Word4* slots_[kRanks - 1];  // null where the group has ended: nothing is sent
};

}  // namespace sinter
