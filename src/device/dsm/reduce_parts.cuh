// dsm_reduce_scatter: the ranks' f32 parts are folded, and each rank ends up with its share of the
// result: partial E tiles of ranks that share N, or partial C tiles of ranks that share K. Each
// part of a share travels once, straight to its owner: (kRanks - 1) / kRanks of a part leave a
// block. After FlashFuser (arXiv 2512.12949) section IV-A; direct pushes instead of a ring: the
// same bytes, one hop of latency.
#pragma once
#include "dsm/parts.cuh"

namespace sinter {

// What a kernel provides: kInboxBytes and one delivery.
template <class Group, int kRegisters>
struct DsmReduceScatter {
  using Shares = DsmShares<kRegisters, Group::kRanks>;
  static constexpr int kShareRegisters = 4 * Shares::kMost;
  static constexpr int kSourceBytes = Shares::kMost * Group::kThreads * 16;
  static constexpr int kInboxBytes = Group::kRanks * kSourceBytes;  // [source][chunk][thread]
};

// Sends every owner its chunks of `d`. The own ones go to the own inbox by plain stores: the thread
// that stores a chunk is the one that reads it.
template <class Group, class Mailbox, int kRegisters>
SINTER_DEVICE void dsm_scatter(const Group& group, const Mailbox& box,
                               const float (&d)[kRegisters]) {
  using Sizes = DsmReduceScatter<Group, kRegisters>;
  using Shares = typename Sizes::Shares;
  const u32 row = box.inbox + group.rank * Sizes::kSourceBytes;
#pragma unroll
  for (int owner = 0; owner < Group::kRanks; ++owner) {
    const u32 to = group.at(row, owner), full = group.at(box.full(0), owner);
#pragma unroll
    for (int i = 0; i < Shares::kMost; ++i) {
      if (i >= Shares::count(owner)) continue;
      const u32 at = chunk_at<Group>(i, group.thread);
      const Word4 v = chunk_of(d, Shares::first(owner) + i);
      if (owner == group.rank)
        store_shared(row + at, v);
      else
        store_async(to + at, full, v);
    }
  }
}

// Bytes that come from the peers.
template <class Group, int kRegisters>
SINTER_DEVICE u32 dsm_scatter_bytes(const Group& group) {
  return (Group::kRanks - 1) * DsmShares<kRegisters, Group::kRanks>::count(group.rank) *
         Group::kThreads * 16;
}

// The fold of all ranks' chunk `i` of this rank's share, once they are there.
template <class Op, int kRegisters, class Group, class Mailbox>
SINTER_DEVICE Float4 dsm_fold(const Group& group, const Mailbox& box, int i) {
  constexpr int kSourceBytes = DsmReduceScatter<Group, kRegisters>::kSourceBytes;
  typename Op::template Fold<Group::kRanks> x, y, z, w;
#pragma unroll
  for (int source = 0; source < Group::kRanks; ++source) {
    const Float4 v =
        load_shared(box.inbox + source * kSourceBytes + chunk_at<Group>(i, group.thread));
    x.take(source, v.x), y.take(source, v.y), z.take(source, v.z), w.take(source, v.w);
  }
  return {x.result(), y.result(), z.result(), w.result()};
}

// share[4 i + j] becomes element j of chunk first(rank) + i of the result; zero behind this rank's
// last chunk. `d` may be anything once this returns. All threads of the group; one round of `box`.
template <class Op, class Group, class Mailbox, int kRegisters>
SINTER_DEVICE void dsm_reduce_scatter(
    const Group& group, Mailbox& box, const float (&d)[kRegisters],
    float (&share)[DsmReduceScatter<Group, kRegisters>::kShareRegisters]) {
  using Shares = DsmShares<kRegisters, Group::kRanks>;
  if (group.thread == 0) box.expect(0, dsm_scatter_bytes<Group, kRegisters>(group));
  box.open();
  dsm_scatter(group, box, d);
  box.await(0);
  jitter();
#pragma unroll
  for (int i = 0; i < Shares::kMost; ++i) {
    set_chunk(share, i, Float4{0, 0, 0, 0});
    if (i < Shares::count(group.rank)) set_chunk(share, i, dsm_fold<Op, kRegisters>(group, box, i));
  }
  box.release(group);
}

}  // namespace sinter
