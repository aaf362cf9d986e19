// The join of rows whose keys the blocks of a cluster share: each block has a part of the keys, and
// what its rows got of them. It pushes that to the owners of the result's columns, in shared
// memory. An owner adds the parts in the order of their keys, so results depend on no timing.
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "tile/layout.cuh"

namespace sinter {

// One block's place among kParts. Of kRows rows of kColumns columns, in groups of 8, each part owns
// kOwned groups, and the last ones fewer or none.
template <int kParts, int kRows, int kColumns, int kThreads>
struct PartsJoin {
  static constexpr int kGroups = kColumns / 8;
  static constexpr int kOwned = ceil_div(kGroups, kParts);
  // What a part sends an owner of a row: sums, then the largest score and the total.
  static constexpr int kSentBytes = kOwned * 32 + 16;
  static constexpr int kInboxBytes = kParts * kRows * kSentBytes;
  static constexpr int kBytes = kInboxBytes + 16;
  static constexpr u32 kConsumers = 1;  // the named barrier of kThreads threads

  u32 inbox;     // [part][row], of this block
  u32 barriers;  // arrived, which counts bytes; taken, which counts owners
  u32 part = 0;  // this block's
  u32 parity = 0;

  SINTER_DEVICE u32 arrived() const { return barriers; }
  SINTER_DEVICE u32 taken() const { return barriers + 8; }
  SINTER_DEVICE void init() const {
    mbarrier_init(arrived(), 1);
    mbarrier_init(taken(), kParts);
  }
  static SINTER_DEVICE int owned_by(u32 part) {
    const int groups = kGroups - static_cast<int>(part) * kOwned;
    return groups < 0 ? 0 : groups < kOwned ? groups : kOwned;
  }

  // Before the first push of an item, by all threads. `rows`: how many each part pushes.
  SINTER_DEVICE void begin(bool first_item, int rows) const {
    if (!first_item) mbarrier_wait_cluster(taken(), parity ^ 1);
    if (threadIdx.x == 0)
      mbarrier_arrive_expect(arrived(), kParts * rows * (owned_by(part) * 32 + 8));
  }
  // A pair of columns of a group: those from 2 * lane on.
  SINTER_DEVICE void push(int row, int group, int lane, float x, float y) const {
    const u32 owner = group / kOwned;
    const u32 at = inbox + (part * kRows + row) * kSentBytes + group % kOwned * 32 + lane * 8;
    store_async(map_to_rank(at, owner), map_to_rank(arrived(), owner), x, y);
  }
  SINTER_DEVICE void push_totals(int row, float largest, float total) const {
    const u32 at = inbox + (part * kRows + row) * kSentBytes + kOwned * 32;
    for (u32 owner = 0; owner < kParts; ++owner)
      store_async(map_to_rank(at, owner), map_to_rank(arrived(), owner), largest, total);
  }

  // Gives store(row, column, values) four columns of sums and the row's total, of all rows' owned
  // columns. Powers(most).factor(largest): what brings a part's sums to the largest score of all.
  template <class Powers, class Shift, class Store>
  SINTER_DEVICE void take(int rows, Shift shift, Store store) {
    mbarrier_wait_cluster(arrived(), parity);
    const int quads = owned_by(part) * 2;
    for (int i = threadIdx.x; i < rows * quads; i += kThreads) {
      const int row = i / quads, quad = i % quads;
      const u32 at = inbox + row * kSentBytes;
      float largest[kParts], most = 0;
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        largest[p] = __uint_as_float(load_shared_word(at + p * kRows * kSentBytes + kOwned * 32));
        most = p == 0 ? largest[0] : fmaxf(most, largest[p]);
      }
      const Powers powers(shift(most));
      Float4 sum{0, 0, 0, 0};
      float total = 0;
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const u32 from = at + p * kRows * kSentBytes;
        const float factor = powers.factor(largest[p]);
        const Float4 x = load_shared(from + quad * 16);
        total = fmaf(factor, __uint_as_float(load_shared_word(from + kOwned * 32 + 4)), total);
        sum = {fmaf(factor, x.x, sum.x), fmaf(factor, x.y, sum.y), fmaf(factor, x.z, sum.z),
               fmaf(factor, x.w, sum.w)};
      }
      store(row, static_cast<int>(part) * kOwned * 8 + quad * 4, sum, total);
    }
  }
  // After take(), by all threads: owners let the parts push the next item. After the last item
  // nobody waits, and a peer may have exited.
  SINTER_DEVICE void end(bool last_item) {
    parity ^= 1;
    if (last_item) return;
    named_barrier(kConsumers, kThreads);
    if (threadIdx.x < kParts) mbarrier_arrive_remote_read(map_to_rank(taken(), threadIdx.x));
  }
};

}  // namespace sinter
