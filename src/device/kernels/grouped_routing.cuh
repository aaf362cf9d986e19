// Which slots of a grouped product are whose. Each block finds it anew from the ids: no list in
// memory, no kernel before this one, no order that depends on time.
//
// A slot is one row of ids' elements, in row-major order; its group is its expert, or the group
// behind all experts where its id names none. The slots of a group are tiles of kBlockM in order of
// slots, and the tiles of all groups follow one another in order of groups.
#pragma once
#include "ptx/memory.cuh"
#include "ptx/types.cuh"

namespace sinter {

// ids as they lie: id of slot i is at (i / kSlots) * kRowStride + (i % kSlots) * kSlotStride.
template <int kSlots, long long kRowStride, long long kSlotStride>
struct GroupIds {
  static constexpr bool kContiguous = kRowStride == kSlots && kSlotStride == 1;
  const int* ids;
  SINTER_DEVICE int at(int slot) const {
    if constexpr (kContiguous) return ids[slot];
    return ids[slot / kSlots * kRowStride + slot % kSlots * kSlotStride];
  }
};

template <int kExperts, int kBlockM, int kThreads>
struct GroupRouting {
  static constexpr int kGroups = kExperts + 1;  // the last: slots whose id names no expert
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kPerThread = 8;  // slots of a thread in one turn

  struct Shared {
    int first_tile[kGroups + 1];  // by group; behind the last the number of tiles
    int slots[kBlockM];           // of the tile
    int warp_counts[kWarps];
  };

  static SINTER_DEVICE int group_of(int id) {
    return static_cast<u32>(id) < static_cast<u32>(kExperts) ? id : kExperts;
  }

  // Counts all groups. All threads call; the result is theirs when it returns.
  template <class Ids>
  static SINTER_DEVICE void count(Shared& shared, const Ids& ids, int total) {
    for (int g = static_cast<int>(threadIdx.x); g <= kGroups; g += kThreads) {
      shared.first_tile[g] = 0;
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < total; i += kThreads) {
      atomicAdd(&shared.first_tile[group_of(ids.at(i))], 1);
    }
    __syncthreads();
    if (threadIdx.x < 32) sum_tiles(shared.first_tile);
    __syncthreads();
  }

  // The group of `tile`, which is below first_tile[kGroups].
  static SINTER_DEVICE int group_at(const Shared& shared, int tile) {
    int low = 0, high = kGroups;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (shared.first_tile[middle] <= tile) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // Writes the slots of `group` from the `skip`-th on, at most kBlockM, and returns how many they
  // are. All threads call, when none reads the slots of the tile before.
  template <class Ids>
  static SINTER_DEVICE int take(Shared& shared, const Ids& ids, int total, int group, int skip) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    int seen = 0;  // slots of the group before this turn's
    for (int base = 0; base < total && seen < skip + kBlockM; base += kThreads * kPerThread) {
      const int first = base + static_cast<int>(threadIdx.x) * kPerThread;
      const u32 mine = members(ids, total, group, first);
      const int count = __popc(mine);
      int inclusive = count;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int below = __shfl_up_sync(0xFFFFFFFFu, inclusive, step);
        if (lane >= step) inclusive += below;
      }
      if (lane == 31) shared.warp_counts[warp] = inclusive;
      __syncthreads();
      int rank = seen + inclusive - count - skip;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        const int of_warp = shared.warp_counts[w];
        if (w < warp) rank += of_warp;
        seen += of_warp;
      }
      for (u32 rest = mine; rest != 0; rest &= rest - 1, ++rank) {
        if (rank >= 0 && rank < kBlockM) shared.slots[rank] = first + __ffs(rest) - 1;
      }
      __syncthreads();
    }
    return min(kBlockM, seen - skip);
  }

 private:
  // Of one warp: counts become the numbers of first tiles.
  static SINTER_DEVICE void sum_tiles(int* groups) {
    const int lane = static_cast<int>(threadIdx.x);
    int base = 0;
    for (int g0 = 0; g0 < kGroups; g0 += 32) {
      const int g = g0 + lane;
      const int tiles = g < kGroups ? (groups[g] + kBlockM - 1) / kBlockM : 0;
      int inclusive = tiles;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int below = __shfl_up_sync(0xFFFFFFFFu, inclusive, step);
        if (lane >= step) inclusive += below;
      }
      if (g < kGroups) groups[g] = base + inclusive - tiles;
      base += __shfl_sync(0xFFFFFFFFu, inclusive, 31);
    }
    if (lane == 0) groups[kGroups] = base;
  }

  // A bit for each slot of this thread's turn that is of `group`.
  template <class Ids>
  static SINTER_DEVICE u32 members(const Ids& ids, int total, int group, int first) {
    u32 mine = 0;
    if (Ids::kContiguous && first + kPerThread <= total) {
      const Word4* words = reinterpret_cast<const Word4*>(ids.ids + first);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const Word4 four = words[half];
        mine |= static_cast<u32>(group_of(static_cast<int>(four.x)) == group) << (4 * half);
        mine |= static_cast<u32>(group_of(static_cast<int>(four.y)) == group) << (4 * half + 1);
        mine |= static_cast<u32>(group_of(static_cast<int>(four.z)) == group) << (4 * half + 2);
        mine |= static_cast<u32>(group_of(static_cast<int>(four.w)) == group) << (4 * half + 3);
      }
      return mine;
    }
#pragma unroll
    for (int j = 0; j < kPerThread; ++j) {
      if (first + j < total && group_of(ids.at(first + j)) == group) mine |= 1u << j;
    }
    return mine;
  }
};

}  // namespace sinter
