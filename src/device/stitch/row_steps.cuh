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

// A key and its place in one word. The larger word comes first: of equal keys that of the lower
// place. No word is 0.
SINTER_DEVICE u64 ranked_word(int key, int place) {
  return static_cast<u64>(static_cast<u32>(key) ^ 0x80000000u) << 32 |
         (0xFFFFFFFFu - static_cast<u32>(place));
}
SINTER_DEVICE int place_of(u64 word) {
  return static_cast<int>(0xFFFFFFFFu - static_cast<u32>(word));
}
SINTER_DEVICE u64 larger(u64 a, u64 b) { return a > b ? a : b; }
SINTER_DEVICE u64 word_of_lane(u64 word, int flip) {
  const u32 high = __shfl_xor_sync(0xFFFFFFFFu, static_cast<u32>(word >> 32), flip);
  const u32 low = __shfl_xor_sync(0xFFFFFFFFu, static_cast<u32>(word), flip);
  return static_cast<u64>(high) << 32 | low;
}

// The groups into which the keys of a row fall, where `taken` are wanted.
constexpr int groups_of_row(int taken) {
  int groups = 32;
  while (groups < 2 * taken) groups *= 2;
  return groups;
}

// The words of shared memory that lie before the keys of a row: results, then what LargestOfRow
// keeps there. A multiple of 8.
constexpr int words_before_keys(int count, int taken) {
  const int results = (taken + 7) / 8 * 8;
  if (taken == 1) return results;
  return results + 2 * groups_of_row(taken) + 8 + (count + count / 4 + 64 + 15) / 16 * 8;
}

// The places of the kTaken largest of kCount keys, falling; of equal keys the lower place first.
//
// The bound is the kTaken-th of the largest words of groups. None of the wanted keys is less. The
// keys that reach it are the candidates, and only few groups have any. Candidates are grouped again
// until there are no more than groups. Then the number of larger words is a word's rank.
template <int kCount, int kTaken, int kThreads>
class LargestOfRow {
 public:
  // Keys begin words_before_keys after the results. All threads may read the results.
  template <class Group>
  static SINTER_DEVICE void find(Group& group, int* results) {
    LargestOfRow row(results);
    group.share();
    int count = kCount;
    if constexpr (kCount <= kGroups) {
      for (int i = row.thread_; i < kCount; i += kThreads) row.words_[i] = row.word_of(i);
      group.share();
    } else {
      count = kCount < 2 * kThreads ? row.template narrow<true>(group, kCount, 0)
                                    : row.first_candidates(group);
#pragma unroll 1
      for (int level = 1; count > kGroups; ++level) {
        count = row.template narrow<false>(group, count, level);
      }
    }
    for (int i = row.thread_; i < count; i += kThreads) {
      const u64 word = row.words_[i];
      const int rank = row.rank_of(word, count);
      if (rank < kTaken) results[rank] = place_of(word);
    }
    group.share();
  }

 private:
  static constexpr int kGroups = groups_of_row(kTaken);
  // A thread has several groups, or neighbouring lanes have one.
  static constexpr int kOfThread = kGroups > kThreads ? kGroups / kThreads : 1;
  static constexpr int kLanes = kThreads > kGroups ? kThreads / kGroups : 1;
  static constexpr int kOwn = (kCount + kThreads - 1) / kThreads;  // keys of a thread
  static constexpr int kUnrolled = kOwn < 16 ? kOwn : 16;
  static_assert(kCount <= 65536, "a candidate's place has 16 bits");
  static_assert(kOfThread * kThreads == kGroups * kLanes && kLanes <= 32, "powers of two");

  explicit SINTER_DEVICE LargestOfRow(int* results)
      : keys_(results + words_before_keys(kCount, kTaken)),
        words_(reinterpret_cast<u64*>(results + (kTaken + 7) / 8 * 8)),
        thread_(static_cast<int>(threadIdx.x) % kThreads) {}

  SINTER_DEVICE u64& bound() const { return words_[kGroups]; }
  // Counts a level's candidates. Levels alternate between two counters.
  SINTER_DEVICE int& counter(int level) const {
    return reinterpret_cast<int*>(words_ + kGroups + 1)[level % 2];
  }
  // The places of a level's candidates. The first level has at most 3/4 of the keys.
  SINTER_DEVICE unsigned short* places(int level) const {
    return reinterpret_cast<unsigned short*>(words_ + kGroups + 4) +
           (level % 2 == 0 ? 0 : kCount - kCount / 4);
  }
  SINTER_DEVICE u64 word_of(int place) const { return ranked_word(keys_[place], place); }
  SINTER_DEVICE int rank_of(u64 word, int count) const {
    int rank = 0;
#pragma unroll 8
    for (int i = 0; i < count; ++i) rank += words_[i] > word ? 1 : 0;
    return rank;
  }

  // Makes the kTaken-th of the groups' words the bound, and returns it.
  template <class Group>
  SINTER_DEVICE u64 find_bound(Group& group, int level) {
    if (thread_ == 0) counter(level) = 0;
    group.share();
    for (int i = thread_; i < kGroups; i += kThreads) {
      const u64 word = words_[i];
      if (rank_of(word, kGroups) == kTaken - 1) bound() = word;
    }
    group.share();
    return bound();
  }

  SINTER_DEVICE void add_candidate(u64 word, int level) {
    const int number = atomicAdd(&counter(level), 1);
    places(level)[number] = static_cast<unsigned short>(place_of(word));
    if (number < kGroups) words_[number] = word;
  }

  // Whether the row has key j of the thread.
  SINTER_DEVICE bool has(int j) const {
    return (j + 1) * kThreads <= kCount || j * kThreads + thread_ < kCount;
  }

  // Candidates of all keys, of which each thread has two at least. Returns their number.
  template <class Group>
  SINTER_DEVICE int first_candidates(Group& group) {
    // A thread's places rise, so the first of its largest keys comes first.
    int best[kOfThread], place[kOfThread];
#pragma unroll
    for (int g = 0; g < kOfThread; ++g) {
      place[g] = g * kThreads + thread_;
      best[g] = keys_[place[g]];
    }
#pragma unroll kUnrolled
    for (int first = kOfThread; first < kOwn; first += kOfThread) {
#pragma unroll
      for (int g = 0; g < kOfThread; ++g) {
        if (!has(first + g)) continue;
        const int i = (first + g) * kThreads + thread_;
        const int key = keys_[i];
        if (key > best[g]) place[g] = i;
        best[g] = key > best[g] ? key : best[g];
      }
    }
    u64 own = 0;
#pragma unroll
    for (int g = 0; g < kOfThread; ++g) {
      const u64 word = ranked_word(best[g], place[g]);
      own = larger(own, word);
      if constexpr (kLanes == 1) words_[thread_ + g * kThreads] = word;
    }
    if constexpr (kLanes > 1) {
      u64 most = own;
#pragma unroll
      for (int flip = kLanes / 2; flip > 0; flip /= 2) {
        most = larger(most, word_of_lane(most, flip));
      }
      if (thread_ % kLanes == 0) words_[thread_ / kLanes] = most;
    }
    const u64 least = find_bound(group, 0);
#pragma unroll 1
    for (int first = 0; own >= least && first < kOwn; first += kUnrolled) {
      u32 reach = 0;  // a bit for each key
#pragma unroll
      for (int j = 0; j < kUnrolled; ++j) {
        if (first + j >= kOwn || !has(first + j)) continue;
        if (word_of((first + j) * kThreads + thread_) >= least) reach |= 1u << j;
      }
      for (; reach != 0; reach &= reach - 1) {
        add_candidate(word_of((first + __ffs(reach) - 1) * kThreads + thread_), 0);
      }
    }
    group.share();
    return counter(0);
  }

  // Candidates of `count` keys, more than groups: of all of them, or of the level before. Returns
  // their number, which is less.
  template <bool kAll, class Group>
  SINTER_DEVICE int narrow(Group& group, int count, int level) {
    const unsigned short* const from = places(level + 1);
    const auto word_at = [&](int i) { return word_of(kAll ? i : static_cast<int>(from[i])); };
    for (int i = thread_; i < kGroups; i += kThreads) {
      u64 most = 0;
      for (int at = i; at < count; at += kGroups) most = larger(most, word_at(at));
      words_[i] = most;
    }
    const u64 least = find_bound(group, level);
    for (int i = thread_; i < count; i += kThreads) {
      const u64 word = word_at(i);
      if (word >= least) add_candidate(word, level);
    }
    group.share();
    return counter(level);
  }

  const int* keys_;
  u64* words_;  // of groups, then of candidates; then the bound, two counters and places follow
  int thread_;
};

// The place of the largest of kCount keys, of equal ones the lowest; keys and result lie as
// LargestOfRow has them.
template <int kCount, int kThreads, class Group>
SINTER_DEVICE void find_largest(Group& group, int* result) {
  constexpr int kNone = 2147483647;
  const int* const keys = result + words_before_keys(kCount, 1);
  const int t = static_cast<int>(threadIdx.x) % kThreads;
  int largest = -2147483647 - 1, place = kNone;
  group.share();
#pragma unroll 8
  for (int i = t; i < kCount; i += kThreads) {
    const int key = keys[i];
    if (key > largest || place == kNone) place = i;
    largest = key > largest ? key : largest;
  }
  int last = largest;
  if constexpr (kThreads == 32) {
    last = __reduce_max_sync(0xFFFFFFFFu, largest);
    place = __reduce_min_sync(0xFFFFFFFFu, largest == last ? place : kNone);
  } else {
    group.reduce(Partial<Largest, int>{last});
    if (largest != last) place = kNone;
    group.reduce(Partial<Smallest, int>{place});
  }
  if (t == 0) *result = place;
  group.share();
}

template <int kCount, int kTaken, int kBlock, int kThreads, int kCluster, int kSlots>
SINTER_DEVICE void largest_of_row(UnitGroup<kBlock, kThreads, kCluster, kSlots>& group,
                                  int* results) {
  if constexpr (kTaken == 1) {
    find_largest<kCount, kThreads>(group, results);
  } else {
    LargestOfRow<kCount, kTaken, kThreads>::find(group, results);
  }
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
