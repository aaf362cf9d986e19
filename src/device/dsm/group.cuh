// Who exchanges with whom, and the mailbox that every exchange of this folder uses.
//
// A group is `kRanks` neighbouring blocks of a cluster. Blocks outside it are neither waited for
// nor written to, and groups of one cluster run at their own pace. All blocks of a group call the
// same primitives in the same order, with equal template arguments and equal shared addresses.
//
// Life of a kernel: one thread initialises the mailboxes; all threads of all blocks of the cluster
// dsm_join(), the only barrier.cluster; rounds; then each mailbox is drained, after which nobody
// touches this block's shared memory any more and it may exit while its peers run on.
#pragma once
#include "ptx/bulk.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"

namespace sinter {

// This thread's place among the threads that exchange: kThreads of each block, whole warps, which
// meet on named barrier kBarrier. kThreads >= 32, so that a thread for each peer exists.
template <int kRanks_, int kThreads_, int kBarrier_>
struct DsmGroup {
  int first;   // cluster rank of the group's rank 0
  int rank;    // of this block in the group
  int thread;  // 0..kThreads - 1

  static constexpr int kRanks = kRanks_, kThreads = kThreads_;
  static_assert(kRanks >= 2 && kRanks <= 16, "a group has 2 to 16 blocks of a cluster");
  static_assert(kThreads >= 32 && kThreads % 32 == 0, "threads come in whole warps");

  SINTER_DEVICE u32 at(u32 address, int peer) const { return map_to_rank(address, first + peer); }
  SINTER_DEVICE void meet() const { named_barrier(kBarrier_, kThreads); }
  SINTER_DEVICE bool meet_any(bool vote) const {
    return named_barrier_any(kBarrier_, kThreads, vote);
  }
};

// Room in shared memory that peers fill, with kDeliveries barriers that tell of it. Peers write at
// any time between open() and the delivery, and not outside. One round:
//   expect(i, bytes) one thread a delivery: what the peers will send
//   open()           all threads: waits until every peer is done with what this block sent last
//   ... pushes to peers' inboxes, completing on their full(i) ...
//   await(i)         threads that read delivery i, until it is there; some thread waits for each
//                    delivery of each round before its release()
//   ... reads ...
//   release()        all threads: peers may fill the inbox again
// Invariants: full(i) takes one arrival of its own block, and bytes; it completes once a round.
// empty takes one arrival of each peer; its phase r completes when every peer has released round r.
// A block sends in round r + 1 only after phase r of its empty, so bytes of one round never meet
// those of another, and nobody falls two phases behind. Bytes may come before they are expected:
// the phase still needs the arrival.
//
// Waits and arrivals are the plain forms, as for TMA multicast: bytes of st.async and of bulk
// copies are in shared memory before their phase completes, and a release says only that this block
// has read. The forms with cluster scope would fence global memory too (MEMBAR.GPU, CCTL.IVALL).
template <int kDeliveries_>
struct DsmMailbox {
  u32 inbox;     // shared address, 16-byte aligned
  u32 barriers;  // kBarrierBytes, 8-byte aligned
  u32 parity = 0;

  static constexpr int kDeliveries = kDeliveries_;
  static constexpr int kBarrierBytes = 8 * (kDeliveries + 1);

  SINTER_DEVICE u32 full(int i) const { return barriers + 8 * i; }
  SINTER_DEVICE u32 empty() const { return barriers + 8 * kDeliveries; }

  // One thread, before dsm_join().
  SINTER_DEVICE void init(int ranks) const {
    for (int i = 0; i < kDeliveries; ++i) mbarrier_init(full(i), 1);
    mbarrier_init(empty(), ranks - 1);
  }

  SINTER_DEVICE void expect(int i, u32 bytes) const { mbarrier_arrive_expect(full(i), bytes); }

  // A fresh barrier lets a wait for parity 1 pass: round 0 finds all inboxes free.
  SINTER_DEVICE void open() const { mbarrier_wait(empty(), parity ^ 1); }

  SINTER_DEVICE void await(int i) const { mbarrier_wait(full(i), parity); }

  template <class Group>
  SINTER_DEVICE void release(const Group& group) {
    group.meet();
    if (group.thread < Group::kRanks && group.thread != group.rank)
      mbarrier_arrive_remote_read(group.at(empty(), group.thread));
    parity ^= 1;
  }

  // After the last round: until every peer has released it. Then no arrival and no byte is on its
  // way to or from this block.
  SINTER_DEVICE void drain() const { mbarrier_wait(empty(), parity ^ 1); }
};

// Every thread of every block of the cluster, once, after mailboxes were initialised and before the
// first round.
SINTER_DEVICE void dsm_join() {
  mbarrier_init_fence();
  cluster_arrive();
  cluster_wait();
}

}  // namespace sinter
