// Which slots of a grouped product are whose. Each block finds it anew from the ids, or from where
// groups end: no list in memory, no kernel before this one, no order that depends on time.
//
// A slot is one row of ids' elements, in row-major order; its group is its expert, or the group
// behind all experts where its id names none. By ends a slot is a row. The slots of a group are
// tiles of kBlockM in an order that the ids alone decide, and the tiles of all groups follow one
// another in order of groups.
#pragma once
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "ptx/types.cuh"

namespace sinter {

// ids as they lie: id of slot i is at (i / kSlots) * kRowStride + (i % kSlots) * kSlotStride.
template <int kSlots, long long kRowStride, long long kSlotStride>
struct GroupIds {
  static constexpr bool kAreEnds = false;
  static constexpr bool kContiguous = kRowStride == kSlots && kSlotStride == 1;
  const int* ids;
  template <class Operands>
  SINTER_DEVICE explicit GroupIds(const Operands& o) : ids(o.ids) {}
  SINTER_DEVICE int at(int slot) const { return ids[place(slot)]; }
  // The same past L1, which may hold what stood there in an earlier launch where the kernel before
  // is still running.
  SINTER_DEVICE int early_at(int slot) const { return load_past_l1(ids + place(slot)); }
  static SINTER_DEVICE long long place(int slot) {
    if constexpr (kContiguous) return slot;
    return slot / kSlots * kRowStride + slot % kSlots * kSlotStride;
  }
  // Whether contiguous ids begin at a multiple of 16 bytes, as their buffer does. A pass over M may
  // begin at any row.
  SINTER_DEVICE bool has_vectors() const {
    if constexpr (kSlots % 4 == 0) return true;
    return reinterpret_cast<u64>(ids) % sizeof(Word4) == 0;
  }
};

// Where groups end: slots below ends[g * kStride] that are not of groups before are of group g.
// They count rows from the first one of all passes on, of which this launch's first is `first_row`.
template <long long kStride>
struct GroupEnds {
  static constexpr bool kAreEnds = true;
  const int* ends;
  int first_row;
  template <class Operands>
  SINTER_DEVICE explicit GroupEnds(const Operands& o) : ends(o.ids), first_row(o.first_row) {}
  // Of this launch's rows; not less than 0, and as they stand else.
  SINTER_DEVICE int at(int group) const {
    return max(0, max(0, load_past_l1(ends + group * kStride)) - first_row);
  }
};

// A Config's.
template <class Config, bool kByEnds = Config::kByEnds>
struct GroupsOf {
  using Type = GroupIds<Config::kSlots, Config::kIdStride, Config::kIdSlotStride>;
};
template <class Config>
struct GroupsOf<Config, true> {
  using Type = GroupEnds<Config::kIdStride>;
};

// Slots are cut into segments. How many slots of each group stand before each segment is counted
// once; a tile's slots are then found in the segments that have some of them. kFiner multiplies the
// number of segments, and so the bytes of their counts. By ends a group's slots follow one another:
// there is nothing to count or to find.
template <int kExperts, int kBlockM, int kTakers = 128, int kFiner = 1>
struct GroupRouting {
  static constexpr int kGroups = kExperts + 1;  // the last: slots whose id names no expert
  static constexpr int kTakerWarps = kTakers / 32;
  static constexpr u32 kBarrier = 1;  // of the takers
  // As many as 8 KB hold counts of, at most 16.
  static constexpr int kSegments = kFiner * (kGroups <= 129   ? 16
                                             : kGroups <= 257 ? 8
                                             : kGroups <= 513 ? 4
                                                              : 2);
  // Of a warp: slots that an instruction reads, and how many of these are on their way.
  static constexpr int kBatch = 128, kAtOnce = 8;
  static constexpr int kCountedAtOnce = 16;  // loads of a thread that are on their way

  struct Shared {
    int first_tile[kGroups + 1];  // by group; behind the last the number of tiles
    // Slots of the group before the segment; all of them. By ends, in the place of the first, 0,
    // the group's first slot, and nothing between this and all of them.
    int before[kSegments + 1][kGroups];
  };

  static SINTER_DEVICE int group_of(int id) {
    return static_cast<u32>(id) < static_cast<u32>(kExperts) ? id : kExperts;
  }
  static SINTER_DEVICE int segment_slots(int total) {
    constexpr int kAll = kSegments * kBatch;
    return (total + kAll - 1) / kAll * kBatch;
  }

  // Counts all groups. All threads of the block call; the result is theirs when it returns. wait()
  // comes before ids are read.
  template <int kThreads, class Ids, class Wait>
  static SINTER_DEVICE void count(Shared& shared, const Ids& ids, int total, const Wait& wait) {
    count_slots<kThreads>(shared, ids, total, wait);
    if (threadIdx.x < 32) sum_tiles(shared.first_tile);
    __syncthreads();
  }

  // The same with the numbers of tiles of each group in the place of first tiles.
  template <int kThreads, class Ids, class Wait>
  static SINTER_DEVICE void count_slots(Shared& shared, const Ids& ids, int total,
                                        const Wait& wait) {
    if constexpr (Ids::kAreEnds) {
      wait();
      if (threadIdx.x < 32) read_ends(shared, ids, total);
    } else {
      count_ids<kThreads>(shared, ids, total, wait);
    }
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

  // Writes the slots of `group` from the `skip`-th on, at most `most`, and returns how many they
  // are. kTakers threads call, of numbers `thread`; all of them see the slots when it returns.
  template <class Ids>
  static SINTER_DEVICE int take(const Shared& shared, int* slots, int thread, const Ids& ids,
                                int total, int group, int skip, int most = kBlockM) {
    if constexpr (Ids::kAreEnds) {
      const int first = shared.before[0][group] + skip;
      const int count = min(most, shared.before[kSegments][group] - skip);
      for (int i = thread; i < count; i += kTakers) slots[i] = first + i;
    } else {
      // Short segments are searched together, as far as loads on their way reach.
      const int of_segment = segment_slots(total);
      const int step = max(1, kAtOnce * kBatch / of_segment);
      for (int segment = thread / 32 * step; segment < kSegments; segment += kTakerWarps * step) {
        const int behind = min(segment + step, kSegments);
        const int rank = shared.before[segment][group] - skip;
        const int end = shared.before[behind][group] - skip;
        if (rank >= most || end <= 0 || rank == end) continue;
        take_segment(slots, ids, min(total, behind * of_segment), group, segment * of_segment, rank,
                     min(end, most));
      }
    }
    named_barrier(kBarrier, kTakers);
    return max(0, min(most, shared.before[kSegments][group] - skip));
  }

  // Of one warp: numbers of tiles become the numbers of first tiles. A lane has groups in a row.
  static SINTER_DEVICE void sum_tiles(int* groups) {
    constexpr int kEach = (kGroups + 31) / 32;
    const int lane = static_cast<int>(threadIdx.x), first = lane * kEach;
    const int behind = min(first + kEach, kGroups);
    int sum = 0;
#pragma unroll 8
    for (int g = first; g < behind; ++g) sum += groups[g];
    int inclusive = sum;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int below = __shfl_up_sync(0xFFFFFFFFu, inclusive, step);
      if (lane >= step) inclusive += below;
    }
    int before = inclusive - sum;
#pragma unroll 8
    for (int g = first; g < behind; ++g) {
      const int tiles = groups[g];
      groups[g] = before;
      before += tiles;
    }
    if (lane == 31) groups[kGroups] = inclusive;
  }

 private:
  template <int kThreads, class Ids, class Wait>
  static SINTER_DEVICE void count_ids(Shared& shared, const Ids& ids, int total, const Wait& wait) {
    const int thread = static_cast<int>(threadIdx.x);
    for (int i = thread; i < kSegments * kGroups; i += kThreads) (&shared.before[1][0])[i] = 0;
    wait();
    __syncthreads();
    if (total <= kThreads) {
      count_some<kThreads, 1>(shared, ids, total);
    } else {
      count_some<kThreads, kCountedAtOnce>(shared, ids, total);
    }
    __syncthreads();
    for (int g = thread; g < kGroups; g += kThreads) {
      int sum = 0;
      shared.before[0][g] = 0;
#pragma unroll
      for (int segment = 1; segment <= kSegments; ++segment) {
        sum += shared.before[segment][g];
        shared.before[segment][g] = sum;
      }
      shared.first_tile[g] = (sum + kBlockM - 1) / kBlockM;
    }
  }

  // Adds one for each id, kAtOnce of a thread's after they were loaded together.
  template <int kThreads, int kAtOnce, class Ids>
  static SINTER_DEVICE void count_some(Shared& shared, const Ids& ids, int total) {
    const int of_segment = segment_slots(total);
    for (int first = static_cast<int>(threadIdx.x); first < total; first += kAtOnce * kThreads) {
      int id[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        id[i] = ids.early_at(min(first + i * kThreads, total - 1));
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int slot = first + i * kThreads;
        if (slot < total) atomicAdd(&shared.before[1 + slot / of_segment][group_of(id[i])], 1);
      }
    }
  }

  // By a warp: a group ends where its end says, but not before the groups before it, nor behind all
  // slots; what is behind the last expert's is the last group's.
  template <class Ends>
  static SINTER_DEVICE void read_ends(Shared& shared, const Ends& ends, int total) {
    const int lane = static_cast<int>(threadIdx.x);
    int before = 0;
    for (int g0 = 0; g0 < kGroups; g0 += 32) {
      const int g = g0 + lane;
      int end = max(before, g < kExperts ? min(ends.at(g), total) : total);
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int below = __shfl_up_sync(0xFFFFFFFFu, end, step);
        if (lane >= step) end = max(end, below);
      }
      int first = __shfl_up_sync(0xFFFFFFFFu, end, 1);
      if (lane == 0) first = before;
      if (g < kGroups) {
        shared.before[0][g] = first;
        shared.before[kSegments][g] = end - first;
        shared.first_tile[g] = (end - first + kBlockM - 1) / kBlockM;
      }
      before = __shfl_sync(0xFFFFFFFFu, end, 31);
    }
  }

  // By a warp: the slots of `group` from `first` to `last` have ranks from `rank` on; up to `end`.
  template <class Ids>
  static SINTER_DEVICE void take_segment(int* slots, const Ids& ids, int last, int group, int first,
                                         int rank, int end) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (; first < last && rank < end; first += kAtOnce * kBatch) {
      const u32 mine = members(ids, last, group, first);
      const int count = __popc(mine);
      int inclusive = count;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int below = __shfl_up_sync(0xFFFFFFFFu, inclusive, step);
        if (lane >= step) inclusive += below;
      }
      int at = rank + inclusive - count;
      for (u32 rest = mine; rest != 0; rest &= rest - 1, ++at) {
        const int bit = __ffs(rest) - 1;
        if (at >= 0 && at < end) slots[at] = first + bit / 4 * kBatch + 4 * lane + bit % 4;
      }
      rank += __shfl_sync(0xFFFFFFFFu, inclusive, 31);
    }
  }

  // Bit 4 i + j: whether slot kBatch i + j from this lane's first one on, below `last`, is of
  // `group`. Nothing stands between the loads, so that all are on their way at once.
  template <class Ids>
  static SINTER_DEVICE u32 members(const Ids& ids, int last, int group, int first) {
    // What is no expert's follows the experts as an unsigned number.
    const u32 least = static_cast<u32>(group), span = group < kExperts ? 1u : 0u - kExperts;
    const u32 none = least + span;
    const int mine = first + 4 * (static_cast<int>(threadIdx.x) % 32);
    if constexpr (Ids::kContiguous) {
      if (!ids.has_vectors()) return members_one_by_one(ids, last, mine, least, span);
    }
    Word4 read[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int at = mine + i * kBatch;
      read[i] = {none, none, none, none};
      if constexpr (Ids::kContiguous) {
        if (at + 4 <= last) read[i] = *reinterpret_cast<const Word4*>(ids.ids + at);
      } else {
        if (at < last) read[i].x = static_cast<u32>(ids.at(at));
        if (at + 1 < last) read[i].y = static_cast<u32>(ids.at(at + 1));
        if (at + 2 < last) read[i].z = static_cast<u32>(ids.at(at + 2));
        if (at + 3 < last) read[i].w = static_cast<u32>(ids.at(at + 3));
      }
    }
    u32 found = 0;
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      found |= static_cast<u32>(read[i].x - least < span) << 4 * i;
      found |= static_cast<u32>(read[i].y - least < span) << (4 * i + 1);
      found |= static_cast<u32>(read[i].z - least < span) << (4 * i + 2);
      found |= static_cast<u32>(read[i].w - least < span) << (4 * i + 3);
    }
    if constexpr (Ids::kContiguous) {  // the last one to three
      const int rest = last / 4 * 4, batch = (rest - mine) / kBatch;
      if (rest < last && rest >= mine && (rest - mine) % kBatch == 0 && batch < kAtOnce) {
        for (int j = 0; j < last - rest; ++j) {
          const u32 id = static_cast<u32>(ids.ids[rest + j]);
          found |= static_cast<u32>(id - least < span) << (4 * batch + j);
        }
      }
    }
    return found;
  }

  // The same of ids that are not aligned to vectors: slow, but with few registers.
  template <class Ids>
  static SINTER_DEVICE u32 members_one_by_one(const Ids& ids, int last, int mine, u32 least,
                                              u32 span) {
    u32 found = 0;
#pragma unroll 1
    for (int bit = 0; bit < 4 * kAtOnce; ++bit) {
      const int at = mine + bit / 4 * kBatch + bit % 4;
      if (at < last && static_cast<u32>(ids.ids[at]) - least < span) found |= 1u << bit;
    }
    return found;
  }
};

// Which units, (tile) x (columns), columns first, a walker takes: pieces of neighbours in turns
// with others. Slots are found once for a piece, not for each unit: a piece is some kFindSteps
// steps of K, of which a unit has kSteps, but no longer than gives all walkers work. Walkers'
// numbers of units differ by one.
template <int kTilesN, int kSteps, int kFindSteps>
struct UnitWalk {
  static constexpr int kMost = kSteps < kFindSteps ? kFindSteps / kSteps : 1;
  int unit, tile = -1;
  u32 tiles = 0;  // begun so far

  SINTER_DEVICE UnitWalk(int units, int walker, int walkers) : piece_(walker), walkers_(walkers) {
    const int rounds = max(1, units / (walkers * kMost));
    pieces_ = rounds * walkers;
    even_ = units / pieces_;
    longer_ = units % pieces_;  // so many pieces have one more
    begin_piece();
  }
  SINTER_DEVICE bool more() const { return unit < end_; }
  SINTER_DEVICE bool is_last() const { return unit + 1 == end_ && !has(piece_ + walkers_); }
  SINTER_DEVICE void next() {
    if (++unit < end_) return;
    piece_ += walkers_;
    begin_piece();
  }
  SINTER_DEVICE bool begins_tile() {
    if (unit / kTilesN == tile) return false;
    tile = unit / kTilesN;
    ++tiles;
    return true;
  }
  // Of the tile's columns.
  SINTER_DEVICE int column() const { return unit % kTilesN; }
  // Of the tile's two buffers.
  SINTER_DEVICE u32 buffer() const { return (tiles - 1) % 2; }
  SINTER_DEVICE u32 parity() const { return (tiles - 1) / 2 % 2; }

 private:
  SINTER_DEVICE bool has(int piece) const {
    return piece < pieces_ && (even_ > 0 || piece < longer_);
  }
  SINTER_DEVICE void begin_piece() {
    unit = piece_ * even_ + min(piece_, longer_);
    end_ = has(piece_) ? unit + even_ + (piece_ < longer_ ? 1 : 0) : unit;
  }

  int piece_, walkers_, pieces_, even_, longer_, end_;
};

}  // namespace sinter
