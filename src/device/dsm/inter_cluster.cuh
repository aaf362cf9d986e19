// inter_cluster_reduce: blocks of different clusters hold parts of the same f32 tile; the one that
// comes last gets the sum. Nobody waits for another block, so any launch may use it. After
// FlashFuser (arXiv 2512.12949) section IV-A, which adds into the output with cp.reduce.async.bulk
// and leaves open who clears it and who rounds; here the last arriver (as in split-K with a
// semaphore, CUTLASS) takes the sum, rounds it as it likes, and leaves scratch and counter as it
// found them.
#pragma once
#include "dsm/parts.cuh"

namespace sinter {

enum class InterClusterOrder {
  kFixed,     // parts in slots of their own, summed in slot order: the same bits every time
  kFree,      // red.add from registers, in any order
  kFreeBulk,  // cp.reduce.async.bulk from shared memory, in any order
};

// One tile. The same scratch and counter serve every launch, and one tile a launch.
struct InterClusterTile {
  float* scratch;  // global, 16-byte aligned. kFixed: parts * kTileBytes, whatever they hold; else
                   // kTileBytes, zero before the first use and left so
  u32* counter;    // global, zero before the first use and left so
  int slot;        // of this block's part, 0..parts - 1
  int parts;       // blocks that call with this tile
  u32 staging;     // kFreeBulk: kTileBytes of this block's shared memory, 16-byte aligned
};

template <InterClusterOrder kOrder, class Group, int kRegisters>
struct InterClusterReduce {
  static constexpr int kChunks = kRegisters / 4;
  static constexpr int kTileFloats = kRegisters * Group::kThreads;
  static constexpr int kTileBytes = 4 * kTileFloats;  // [chunk][thread]
  static constexpr int kBulkBytes = 8192;  // of one bulk sum: the rate no longer grows from there

  static SINTER_DEVICE float* place(const Group& group, float* tile, int chunk) {
    return tile + chunk_at<Group>(chunk, group.thread) / 4;
  }

  static SINTER_DEVICE void give_bulk(const Group& group, const float (&d)[kRegisters],
                                      const InterClusterTile& tile) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
      store_shared(tile.staging + chunk_at<Group>(c, group.thread), chunk_of(d, c));
    fence_proxy_async_shared();
    group.meet();
    if (group.thread != 0) return;
    for (int at = 0; at < kTileBytes; at += kBulkBytes)
      bulk_add(tile.scratch + at / 4, tile.staging + at,
               kTileBytes - at < kBulkBytes ? kTileBytes - at : kBulkBytes);
    bulk_add_wait();
    fence_proxy_async_global();
  }

  static SINTER_DEVICE void give(const Group& group, const float (&d)[kRegisters],
                                 const InterClusterTile& tile) {
    if constexpr (kOrder == InterClusterOrder::kFreeBulk) {
      give_bulk(group, d, tile);
      return;
    }
    float* const to =
        tile.scratch + (kOrder == InterClusterOrder::kFixed ? tile.slot * kTileFloats : 0);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const Float4 v{d[4 * c], d[4 * c + 1], d[4 * c + 2], d[4 * c + 3]};
      if (kOrder == InterClusterOrder::kFixed)
        store_relaxed_gpu(place(group, to, c), v);
      else
        add_relaxed_gpu(place(group, to, c), v);
    }
  }

  static SINTER_DEVICE void take(const Group& group, float (&d)[kRegisters],
                                 const InterClusterTile& tile) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      float* const from = place(group, tile.scratch, c);
      Float4 sum = load_relaxed_gpu(from);
      if (kOrder == InterClusterOrder::kFixed) {
        for (int slot = 1; slot < tile.parts; ++slot) {
          const Float4 v = load_relaxed_gpu(from + slot * kTileFloats);
          sum = {sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w};
        }
      } else {
        store_relaxed_gpu(from, Float4{0, 0, 0, 0});
      }
      set_chunk(d, c, sum);
    }
  }
};

// All threads of the group in every block that holds a part. True in the block that came last: its
// d is the sum. Elsewhere d stays.
//
// The first meeting gathers the block's stores or sums; thread 0's addition to the counter releases
// them, and acquires those of the blocks before it. Bulk sums are thread 0's own, and complete.
template <InterClusterOrder kOrder, class Group, int kRegisters>
SINTER_DEVICE bool inter_cluster_reduce(const Group& group, float (&d)[kRegisters],
                                        const InterClusterTile& tile) {
  using Reduce = InterClusterReduce<kOrder, Group, kRegisters>;
  Reduce::give(group, d, tile);
  if (kOrder != InterClusterOrder::kFreeBulk) group.meet();
  bool last = false;
  if (group.thread == 0) {
    last = fetch_add_gpu(tile.counter, 1) == static_cast<u32>(tile.parts - 1);
    if (last) store_relaxed_gpu(tile.counter, 0u);
  }
  if (!group.meet_any(last)) return false;
  Reduce::take(group, d, tile);
  return true;
}

}  // namespace sinter
