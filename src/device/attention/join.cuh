// The join of split keys. The blocks of a cluster multiply the same rows by different keys. Each
// pushes its partial sums, largest scores and totals into the shared memory of the blocks that own
// the columns. An owner adds them in the order of keys, so that results do not depend on timing.
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "tile/layout.cuh"

namespace sinter {

// The join as one of kSplits blocks sees it. A row has kColumns columns, in groups of 8. Each block
// owns kOwned groups; the last blocks own fewer, or none.
template <int kSplits, int kRows, int kColumns, int kThreads>
struct SplitJoin {
  static constexpr int kGroups = kColumns / 8;
  static constexpr int kOwned = ceil_div(kGroups, kSplits);
  // What a block sends an owner for a row: sums, then the largest score and the total.
  static constexpr int kSentBytes = kOwned * 32 + 16;
  static constexpr int kInboxBytes = kSplits * kRows * kSentBytes;
  static constexpr int kBytes = kInboxBytes + 16;
  static constexpr u32 kConsumers = 1;  // the named barrier of kThreads threads

  u32 inbox;      // [split][row]
  u32 barriers;   // arrived, which counts bytes; taken, which counts owners
  u32 split = 0;  // this block's
  u32 parity = 0;

  SINTER_DEVICE u32 arrived() const { return barriers; }
  SINTER_DEVICE u32 taken() const { return barriers + 8; }
  SINTER_DEVICE void init() const {
    mbarrier_init(arrived(), 1);
    mbarrier_init(taken(), kSplits);
  }
  static SINTER_DEVICE int owned_by(u32 split) {
    const int groups = kGroups - static_cast<int>(split) * kOwned;
    return groups < 0 ? 0 : groups < kOwned ? groups : kOwned;
  }

  // Before the first push of an item, by all threads. `rows`: how many each block pushes.
  SINTER_DEVICE void begin(bool first_item, int rows) const {
    if (!first_item) mbarrier_wait_cluster(taken(), parity ^ 1);
    if (threadIdx.x == 0)
      mbarrier_arrive_expect(arrived(), kSplits * rows * (owned_by(split) * 32 + 8));
  }
  // A pair of columns of a group: those from 2 * lane on.
  SINTER_DEVICE void push(int row, int group, int lane, float x, float y) const {
    const u32 owner = group / kOwned;
    const u32 at = inbox + (split * kRows + row) * kSentBytes + group % kOwned * 32 + lane * 8;
    store_async(map_to_rank(at, owner), map_to_rank(arrived(), owner), x, y);
  }
  SINTER_DEVICE void push_totals(int row, float largest, float total) const {
    const u32 at = inbox + (split * kRows + row) * kSentBytes + kOwned * 32;
    for (u32 owner = 0; owner < kSplits; ++owner)
      store_async(map_to_rank(at, owner), map_to_rank(arrived(), owner), largest, total);
  }

  // Calls store(row, column, sums, total) for every four columns that the block owns of each row.
  // Powers(most).factor(largest) brings sums about one split's largest score to that of all.
  template <class Powers, class Shift, class Store>
  SINTER_DEVICE void take(int rows, Shift shift, Store store) {
    mbarrier_wait_cluster(arrived(), parity);
    const int quads = owned_by(split) * 2;
    for (int i = threadIdx.x; i < rows * quads; i += kThreads) {
      const int row = i / quads, quad = i % quads;
      const u32 at = inbox + row * kSentBytes;
      float largest[kSplits], most = 0;
#pragma unroll
      for (int p = 0; p < kSplits; ++p) {
        largest[p] = __uint_as_float(load_shared_word(at + p * kRows * kSentBytes + kOwned * 32));
        most = p == 0 ? largest[0] : fmaxf(most, largest[p]);
      }
      const Powers powers(shift(most));
      Float4 sum{0, 0, 0, 0};
      float total = 0;
#pragma unroll
      for (int p = 0; p < kSplits; ++p) {
        const u32 from = at + p * kRows * kSentBytes;
        const float factor = powers.factor(largest[p]);
        const Float4 x = load_shared(from + quad * 16);
        total = fmaf(factor, __uint_as_float(load_shared_word(from + kOwned * 32 + 4)), total);
        sum = {fmaf(factor, x.x, sum.x), fmaf(factor, x.y, sum.y), fmaf(factor, x.z, sum.z),
               fmaf(factor, x.w, sum.w)};
      }
      store(row, static_cast<int>(split) * kOwned * 8 + quad * 4, sum, total);
    }
  }
  // After take(), by all threads: owners let their peers push the next item. After the last item
  // nobody waits, and a peer may have exited.
  SINTER_DEVICE void end(bool last_item) {
    parity ^= 1;
    if (last_item) return;
    named_barrier(kConsumers, kThreads);
    if (threadIdx.x < kSplits) mbarrier_arrive_remote_read(map_to_rank(taken(), threadIdx.x));
  }
};

}  // namespace sinter
