// dsm_all_exchange: the ranks' f32 parts are folded element by element, and every rank gets the
// whole result: DsmAdd where ranks share K, DsmMul<Activation> where one half computes gate and the
// other up (the sequential form of a gated product needs no exchange, or DsmAdd over both halves of
// its accumulators). After FlashFuser (arXiv 2512.12949) section IV-A.
//
// Two ranks swap their parts: one hop. More ranks reduce and scatter, then send the sums to all:
// two hops, 2 (kRanks - 1) / kRanks of a part leave a block, as in a ring all-reduce (Patarasuk and
// Yuan 2009), where sending whole parts to all would take kRanks - 1.
#pragma once
#include "dsm/reduce_parts.cuh"

namespace sinter {

// What a kernel provides: kInboxBytes and kDeliveries.
template <class Group, int kRegisters>
struct DsmAllExchange {
  using Scatter = DsmReduceScatter<Group, kRegisters>;
  static constexpr bool kSwap = Group::kRanks == 2;
  static constexpr int kPartBytes = kRegisters * Group::kThreads * 4;
  static constexpr int kResults = kSwap ? 0 : Scatter::kInboxBytes;  // offset of [chunk][thread]
  static constexpr int kInboxBytes = kResults + kPartBytes;
  static constexpr int kDeliveries = kSwap ? 1 : 2;
};

template <class Op, class Group, class Mailbox, int kRegisters>
SINTER_DEVICE void dsm_swap(const Group& group, Mailbox& box, float (&d)[kRegisters]) {
  constexpr int kChunks = kRegisters / 4;
  const int peer = 1 - group.rank;
  if (group.thread == 0) box.expect(0, kChunks * Group::kThreads * 16);
  box.open();
  const u32 to = group.at(box.inbox, peer), full = group.at(box.full(0), peer);
#pragma unroll
  for (int c = 0; c < kChunks; ++c)
    store_async(to + chunk_at<Group>(c, group.thread), full, chunk_of(d, c));
  box.await(0);
  jitter();
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    const Float4 v = load_shared(box.inbox + chunk_at<Group>(c, group.thread));
    const float theirs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      typename Op::template Fold<2> fold;
      fold.take(0, group.rank == 0 ? d[4 * c + i] : theirs[i]);
      fold.take(1, group.rank == 0 ? theirs[i] : d[4 * c + i]);
      d[4 * c + i] = fold.result();
    }
  }
  box.release(group);
}

// Folds this rank's share and gives it to all ranks, itself included.
template <class Op, int kRegisters, class Group, class Mailbox>
SINTER_DEVICE void dsm_fold_and_gather(const Group& group, const Mailbox& box) {
  using Shares = DsmShares<kRegisters, Group::kRanks>;
  const u32 results = box.inbox + DsmAllExchange<Group, kRegisters>::kResults;
#pragma unroll
  for (int i = 0; i < Shares::kMost; ++i) {
    if (i >= Shares::count(group.rank)) continue;
    const Float4 v = dsm_fold<Op, kRegisters>(group, box, i);
    const Word4 words{__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z),
                      __float_as_uint(v.w)};
    const u32 at = results + chunk_at<Group>(Shares::first(group.rank) + i, group.thread);
    store_shared(at, words);
    for (int hop = 1; hop < Group::kRanks; ++hop) {  // each rank begins with another peer
      const int peer = (group.rank + hop) % Group::kRanks;
      store_async(group.at(at, peer), group.at(box.full(1), peer), words);
    }
  }
}

template <class Op, class Group, class Mailbox, int kRegisters>
SINTER_DEVICE void dsm_reduce_and_gather(const Group& group, Mailbox& box, float (&d)[kRegisters]) {
  using Sizes = DsmAllExchange<Group, kRegisters>;
  using Shares = DsmShares<kRegisters, Group::kRanks>;
  if (group.thread == 0) {
    box.expect(0, dsm_scatter_bytes<Group, kRegisters>(group));
    box.expect(1, (Shares::kChunks - Shares::count(group.rank)) * Group::kThreads * 16);
  }
  box.open();
  dsm_scatter(group, box, d);
  box.await(0);
  jitter();
  dsm_fold_and_gather<Op, kRegisters>(group, box);
  box.await(1);
  jitter();
#pragma unroll
  for (int c = 0; c < Shares::kChunks; ++c)
    set_chunk(d, c, load_shared(box.inbox + Sizes::kResults + chunk_at<Group>(c, group.thread)));
  box.release(group);
}

// d becomes the fold of all ranks' d, the same bits on every rank. All threads of the group; one
// round of `box`.
template <class Op, class Group, class Mailbox, int kRegisters>
SINTER_DEVICE void dsm_all_exchange(const Group& group, Mailbox& box, float (&d)[kRegisters]) {
  static_assert(Mailbox::kDeliveries == DsmAllExchange<Group, kRegisters>::kDeliveries,
                "a mailbox for this exchange");
  if constexpr (DsmAllExchange<Group, kRegisters>::kSwap)
    dsm_swap<Op>(group, box, d);
  else
    dsm_reduce_and_gather<Op>(group, box, d);
}

}  // namespace sinter
