// Which slots are whose where a cluster of blocks has tiles of one expert, and experts come in the
// order of their tiles' sizes.
#pragma once
#include "kernels/grouped_routing.cuh"

namespace sinter {

// The slots of a group, cut into tiles for kBlocks blocks of a cluster. Groups are in falling order
// of the slots of a tile; first_tile counts the clusters' tiles in this order.
template <int kExperts, int kBlockM, int kBlocks>
struct SwappedRouting : GroupRouting<kExperts, kBlocks * kBlockM, 96, 2> {
  using Base = GroupRouting<kExperts, kBlocks * kBlockM, 96, 2>;
  static constexpr int kGroups = Base::kGroups;

  static constexpr int kSizes = kBlockM / 8 + 1;  // that tile_slots has

  struct Shared : Base::Shared {
    u16 order[kGroups];
    int next[kSizes];  // while groups are ordered: where the next of a size goes
  };

  // How many slots a block's tile has in a group of `slots` slots, whose tiles are equal.
  static SINTER_DEVICE int tile_slots(int slots) {
    const int tiles = kBlocks * ceil_div(slots, kBlocks * kBlockM);
    return tiles == 0 ? 0 : round_up(ceil_div(slots, tiles), 8);
  }

  // Counts and orders all groups. All threads of the block call.
  template <int kThreads, class Ids, class Wait>
  static SINTER_DEVICE void count(Shared& shared, const Ids& ids, int total, const Wait& wait) {
    Base::template count_slots<kThreads>(shared, ids, total, wait);
    if (threadIdx.x < 32) order_groups(shared);
    __syncthreads();
    for (int at = static_cast<int>(threadIdx.x); at < kGroups; at += kThreads) {
      shared.first_tile[at] = ceil_div(slots_of(shared, shared.order[at]), kBlocks * kBlockM);
    }
    __syncthreads();
    if (threadIdx.x < 32) Base::sum_tiles(shared.first_tile);
    __syncthreads();
  }

  static SINTER_DEVICE int slots_of(const Shared& shared, int group) {
    return shared.before[Base::kSegments][group];
  }

  // Which group the cluster's tile `tile` is of, how many of its slots lie before those of block
  // `rank`, and how many the block has at most.
  struct Place {
    int group, skip, most;
  };
  static SINTER_DEVICE Place place(const Shared& shared, int tile, int rank) {
    const int at = Base::group_at(shared, tile), group = shared.order[at];
    const int most = tile_slots(slots_of(shared, group));
    return {group, (kBlocks * (tile - shared.first_tile[at]) + rank) * most, most};
  }

 private:
  // From the largest tiles on; no expert's is 0.
  static SINTER_DEVICE int size_of(const Shared& shared, int group) {
    const int slots = group < kExperts ? tile_slots(slots_of(shared, group)) : 0;
    return kSizes - 1 - slots / 8;
  }

  // By a warp: groups in order of sizes, those of one size in order of their numbers.
  static SINTER_DEVICE void order_groups(Shared& shared) {
    static_assert(kSizes < 32, "a lane has a size");
    const int lane = static_cast<int>(threadIdx.x);
    if (lane < kSizes) shared.next[lane] = 0;
    __syncwarp();
    for (int g = lane; g < kGroups; g += 32) atomicAdd(&shared.next[size_of(shared, g)], 1);
    __syncwarp();
    const int of_size = lane < kSizes ? shared.next[lane] : 0;
    int inclusive = of_size;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int below = __shfl_up_sync(0xFFFFFFFFu, inclusive, step);
      if (lane >= step) inclusive += below;
    }
    if (lane < kSizes) shared.next[lane] = inclusive - of_size;
    __syncwarp();
    for (int g0 = 0; g0 < kGroups; g0 += 32) {
      const int g = g0 + lane;
      const int size = g < kGroups ? size_of(shared, g) : kSizes;
      const u32 same = __match_any_sync(0xFFFFFFFFu, size);
      const int before = __popc(same & ((1u << lane) - 1));
      const int at = size < kSizes ? shared.next[size] : 0;
      __syncwarp();
      if (size < kSizes) {
        shared.order[at + before] = static_cast<u16>(g);
        if (before == 0) shared.next[size] = at + __popc(same);
      }
      __syncwarp();
    }
  }
};

}  // namespace sinter
