// dsm_shuffle: every rank has a slice of a row slab of C, rounded to 16 bits, and ends up with the
// whole slab, as the second product of the ranks that share its rows reads it. A slice is any
// kSliceBytes of shared memory: K-major 64-column subtiles, say, which a slab of whole slices keeps
// at the offsets that wgmma expects. After FlashFuser (arXiv 2512.12949) section IV-A; every slice
// goes straight to every peer instead of round a ring: the same bytes, one hop of latency, and a
// reader takes slices as they come, its own first.
#pragma once
#include "dsm/group.cuh"

namespace sinter {

// The mailbox's inbox is the slab: slice s at s * kSliceBytes, delivered on full(s). One round:
//   dsm_shuffle_open    all threads: the own slice may be written from here on
//   ... st.shared into dsm_slice(box, rank) ...
//   dsm_shuffle_push    all threads: publishes it to the own block and to the peers
//   dsm_shuffle_await   for each source; any threads that read the slice
//   ... ld.shared or wgmma ...
//   dsm_shuffle_release all threads, after their reads; wgmma has been waited for
template <class Group, int kSliceBytes_>
struct DsmShuffle {
  static constexpr int kSliceBytes = kSliceBytes_;
  static constexpr int kInboxBytes = Group::kRanks * kSliceBytes;
  static constexpr int kDeliveries = Group::kRanks;  // the own one is never used
  static_assert(kSliceBytes % 16 == 0, "bulk copies move 16-byte units");
  static_assert(kSliceBytes < 1 << 20, "a phase counts fewer than 2^20 bytes");

  static SINTER_DEVICE u32 slice(const DsmMailbox<kDeliveries>& box, int source) {
    return box.inbox + source * kSliceBytes;
  }

  static SINTER_DEVICE void open(const Group& group, const DsmMailbox<kDeliveries>& box) {
    if (group.thread < Group::kRanks && group.thread != group.rank)
      box.expect(group.thread, kSliceBytes);
    box.open();
  }

  // The fence makes each thread's stores visible to the copies and to wgmma, the meeting gathers
  // them; then one thread a peer copies the slice.
  static SINTER_DEVICE void push(const Group& group, const DsmMailbox<kDeliveries>& box) {
    fence_proxy_async_shared();
    group.meet();
    if (group.thread >= Group::kRanks - 1) return;
    const int peer = (group.rank + 1 + group.thread) % Group::kRanks;
    const u32 own = slice(box, group.rank);
    bulk_push(group.at(own, peer), own, kSliceBytes, group.at(box.full(group.rank), peer));
  }

  // The own slice is there since push().
  static SINTER_DEVICE void await(const Group& group, const DsmMailbox<kDeliveries>& box,
                                  int source) {
    if (source != group.rank) box.await(source);
  }

  // The fence orders this round's plain loads before the copies that overwrite what they read.
  static SINTER_DEVICE void release(const Group& group, DsmMailbox<kDeliveries>& box) {
    fence_proxy_async_shared();
    box.release(group);
  }
};

}  // namespace sinter
