// What the threads of a unit make of a row that they have left in shared memory: its largest
// elements, its running sums. A unit has whole warps.
#pragma once
#include "stitch/group.cuh"

namespace sinter {

// Its order is that of x: NaN is the largest, -0 is 0.
SINTER_DEVICE int order_of(float x) {
  const u32 bits = __float_as_uint(x);
  if (x != x) return 2147483647;
  return static_cast<int>(bits >> 31 != 0 ? 0x80000000u - bits : bits);
}
SINTER_DEVICE int order_of(int x) { return x; }

// The places of the kTaken largest of kCount keys, falling; of equal keys the lower place first.
// Each round takes the largest, whose thread then makes it the least. The results, for all threads
// to read, lie elsewhere than the keys.
template <int kCount, int kTaken, int kBlock, int kThreads, int kCluster, int kSlots>
SINTER_DEVICE void largest_of_row(UnitGroup<kBlock, kThreads, kCluster, kSlots>& group,
                                  int* results, int* keys) {
  constexpr int kOwn = (kCount + kThreads - 1) / kThreads, kUnrolled = kOwn < 16 ? kOwn : 16;
  constexpr int kLeast = -2147483647 - 1, kNone = 2147483647;
  const int t = static_cast<int>(threadIdx.x) % kThreads;
  const auto join = [&](int largest, int& last) {
    if constexpr (kThreads == 32) {
      last = __reduce_max_sync(0xFFFFFFFFu, largest);
    } else {
      last = largest;
      group.reduce(Partial<Largest, int>{last});
    }
  };
  const auto first = [&](int place) {
    if constexpr (kThreads == 32) return __reduce_min_sync(0xFFFFFFFFu, place);
    group.reduce(Partial<Smallest, int>{place});
    return place;
  };
  group.share();
#pragma unroll 1
  for (int round = 0; round < kTaken; ++round) {
    int largest = kLeast, turn = -1, last;
#pragma unroll kUnrolled
    for (int j = 0; j < kOwn; ++j) {
      const int i = j * kThreads + t;
      const int key = (j + 1) * kThreads <= kCount || i < kCount ? keys[i] : kLeast;
      if (key > largest) turn = j;
      largest = key > largest ? key : largest;
    }
    join(largest, last);
    int place = largest == last && turn >= 0 ? turn * kThreads + t : kNone;
    if (last == kLeast) {  // of s32: what is left are its least numbers, as taken ones are
      group.share();
      for (int j = kOwn - 1; j >= 0; --j) {
        const int i = j * kThreads + t;
        bool taken = i >= kCount || keys[i] != kLeast;
        for (int r = 0; r < round; ++r) taken |= results[r] == i;
        if (!taken) place = i;
      }
    }
    const int at = first(place);
    if (at == place) keys[at] = kLeast;
    if (t == 0) results[round] = at;
  }
  group.share();
}

// The sum of the word and those of lower lanes; `sum` becomes that of all lanes. Each level joins
// sums of neighbours.
template <class Word>
SINTER_DEVICE Word sums_of_lanes(Word word, Word& sum) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  sum = word;
#pragma unroll
  for (int level = 1; level < 32; level *= 2) {
    const Word other = __shfl_xor_sync(0xFFFFFFFFu, sum, level);
    if ((lane & level) != 0) word = Sum::join(other, word);
    sum = Sum::join(sum, other);
  }
  return word;
}

// row[i] becomes the sum of row[0] to row[i]: within 32 neighbours level by level, so are the sums
// of 32 times 32 of them, and what came before those is added in order. The order of a sum is one
// for any number of threads.
template <int kCount, class Word, int kBlock, int kThreads, int kCluster, int kSlots>
SINTER_DEVICE void sums_of_row(UnitGroup<kBlock, kThreads, kCluster, kSlots>& group, Word* row) {
  constexpr int kTiles = (kCount + 31) / 32, kWarps = kThreads / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) % kThreads / 32;
  group.share();
#pragma unroll 4
  for (int tile = warp; tile < kTiles; tile += kWarps) {
    const int i = tile * 32 + lane;
    Word all;
    const Word sum = sums_of_lanes(i < kCount ? row[i] : Word{}, all);
    if (i < kCount) row[i] = sum;
  }
  Word before{};  // the sum of all tiles in front of `first`
#pragma unroll 1
  for (int first = 0; kTiles > 1 && first < kTiles; first += 32) {
    group.share();
    const int mine = (first + lane) * 32 + 31;
    Word all;
    const Word own = mine < kCount ? row[mine] : Word{};
    const Word through = Sum::join(before, sums_of_lanes(own, all));
    group.share();
    const int end = first + 32 < kTiles ? first + 32 : kTiles;
#pragma unroll 4
    for (int tile = first + warp; tile < end; tile += kWarps) {
      const int i = tile * 32 + lane;
      const Word last = __shfl_sync(0xFFFFFFFFu, through, (tile - first + 31) % 32);
      const Word in_front = tile > first ? last : before;
      if (i < kCount && tile > 0) row[i] = Sum::join(in_front, row[i]);
    }
    before = Sum::join(before, all);
  }
  group.share();
}

}  // namespace sinter
