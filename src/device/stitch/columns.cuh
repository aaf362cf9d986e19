// Column reductions: results to which all units contribute. Each block writes a part. After a
// barrier of the grid the parts are joined in their order: either blocks divide the columns among
// them, or each block joins all.
#pragma once
#include "stitch/group.cuh"
#include "stitch/math.cuh"

namespace sinter {

// Mean and sum of squared deviations in one pass: Welford's update, and the join of two parts by
// Chan, Golub and LeVeque. Both square deviations only, so that a large mean cancels nothing. Of
// `count` elements; `squares` is the sum of the squared deviations from `mean`.
struct alignas(16) Moments {
  float mean, squares, count, unused;

  // Adds the n-th element; `share` is 1 / n. The caller sets `count`.
  SINTER_DEVICE void take(float x, float share) {
    const float deviation = x - mean;
    mean += deviation * share;
    squares += deviation * (x - mean);
  }
};

struct JoinMoments {
  static SINTER_DEVICE Moments empty(Moments) { return {0.0f, 0.0f, 0.0f, 0.0f}; }
  static SINTER_DEVICE Moments join(const Moments& a, const Moments& b) {
    const float count = a.count + b.count;
    const float share = count > 0.0f ? b.count * reciprocal_approx(count) : 0.0f;
    const float apart = b.mean - a.mean;
    return {a.mean + apart * share, a.squares + b.squares + apart * apart * (share * a.count),
            count, 0.0f};
  }

  // Joins many at once, as sums about the first mean: fewer operations wait for each other than in
  // joins two by two.
  template <int kCount>
  static SINTER_DEVICE Moments join(const Moments (&parts)[kCount]) {
    const float pivot = parts[0].mean;
    float count = 0.0f, apart = 0.0f, squares = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      count += parts[i].count;
      apart = fmaf(parts[i].count, parts[i].mean - pivot, apart);
    }
    const float mean = count > 0.0f ? fmaf(apart, reciprocal_approx(count), pivot) : 0.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float from = parts[i].mean - mean;
      squares += fmaf(parts[i].count * from, from, parts[i].squares);
    }
    return {mean, squares, count, 0.0f};
  }
};

// Where joined columns go.
template <class Word>
struct ColumnResults {
  Word* to;
  Word scale;
  SINTER_DEVICE void put(int column, Word joined) const { to[column] = joined * scale; }
};
struct MomentResults {
  float *means, *moments;
  float scale;  // of the second moments
  SINTER_DEVICE void put(int column, const Moments& joined) const {
    means[column] = joined.count > 0.0f ? joined.mean : __uint_as_float(0x7FFFFFFFu);  // no rows
    moments[column] = joined.squares * scale;
  }
};

// Loads neighbouring words of a part, bypassing L1.
template <class Word>
SINTER_DEVICE void load_part(Word (&words)[1], const Word* from) {
  words[0] = __ldcg(from);
}
template <class Word>
SINTER_DEVICE void load_part(Word (&words)[4], const Word* from) {
  const uint4 read = __ldcg(reinterpret_cast<const uint4*>(from));
  from_bits(words[0], read.x);
  from_bits(words[1], read.y);
  from_bits(words[2], read.z);
  from_bits(words[3], read.w);
}
SINTER_DEVICE void load_part(Moments (&words)[1], const Moments* from) {
  const uint4 read = __ldcg(reinterpret_cast<const uint4*>(from));
  words[0] = {__uint_as_float(read.x), __uint_as_float(read.y), __uint_as_float(read.z), 0.0f};
}

// Parts of one column, joined.
template <class Join, class Word, int kCount>
SINTER_DEVICE Word join_parts(Word (&words)[kCount]) {
#pragma unroll
  for (int i = 1; i < kCount; ++i) words[0] = Join::join(words[0], words[i]);
  return words[0];
}
template <class Join, class, int kCount>
SINTER_DEVICE Moments join_parts(Moments (&words)[kCount]) {
  return Join::join(words);
}

constexpr int kPartsAtOnce = 8;  // that are read before they are joined

// `count` words that lie kStride apart.
template <class Join, class Word, int kStride>
SINTER_DEVICE Word join_strided(const Word* words, int count) {
  Word joined = Join::empty(Word{});
#pragma unroll 1
  for (int first = 0; first < count; first += kPartsAtOnce) {
    Word some[kPartsAtOnce + 1];
    some[kPartsAtOnce] = joined;
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i)
      some[i] = first + i < count ? words[(first + i) * kStride] : Join::empty(Word{});
    joined = join_parts<Join, Word>(some);
  }
  return joined;
}

SINTER_DEVICE float from_lane(float word, int apart) {
  return __shfl_xor_sync(0xFFFFFFFFu, word, apart);
}
SINTER_DEVICE int from_lane(int word, int apart) {
  return __shfl_xor_sync(0xFFFFFFFFu, word, apart);
}
SINTER_DEVICE Moments from_lane(const Moments& word, int apart) {
  return {from_lane(word.mean, apart), from_lane(word.squares, apart), from_lane(word.count, apart),
          0.0f};
}

// Where this block's part of kColumns columns lies, if kBlocks neighbouring blocks leave one.
template <class Word, int kBlocks, int kColumns>
SINTER_DEVICE Word* own_part(unsigned char* parts) {
  return reinterpret_cast<Word*>(parts) + static_cast<long long>(blockIdx.x / kBlocks) * kColumns;
}

// Thread t of each group, in block `rank` of a cluster that shares units, holds partial results of
// columns ((j * kCluster + rank) * kThreads + t) * kVector + e. Joins the block's groups into
// `part`: those of a warp by shuffles, then those of its warps. `shared` has kGroups * kColumns
// words when kGroups > 1. All threads.
template <class Join, class Word, int kBlock, int kThreads, int kCluster, int kChunks, int kVector,
          int kColumns>
SINTER_DEVICE void leave_columns(Word (&held)[kChunks][kVector], Word* shared, Word* part) {
  constexpr int kSharers = kThreads < 32 ? 32 : kThreads;  // threads that leave one part
  constexpr int kGroups = kBlock / kSharers;
  constexpr int kFit = kBlock / kColumns < kGroups ? kBlock / kColumns : kGroups;
  constexpr int kTurns = kFit > 1 ? kFit : 1;
  const int group = threadIdx.x / kSharers, thread = threadIdx.x % kThreads;
  const int rank = kCluster > 1 ? blockIdx.x % kCluster : 0;
  Word* to = kGroups > 1 ? shared + group * kColumns : part;
  if constexpr (kGroups > 1) __syncthreads();
#pragma unroll
  for (int j = 0; j < kChunks; ++j) {
    const int column = ((j * kCluster + rank) * kThreads + thread) * kVector;
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
#pragma unroll
      for (int apart = 16; apart >= kThreads; apart /= 2)
        held[j][e] = Join::join(held[j][e], from_lane(held[j][e], apart));
      if (threadIdx.x % kSharers < kThreads && column + e < kColumns) to[column + e] = held[j][e];
    }
  }
  if constexpr (kGroups > 1) {
    __syncthreads();
    // Where there are more threads than columns, several of them divide the groups of a column.
    for (int at = threadIdx.x; at < kColumns * kTurns; at += kBlock) {
      const int turn = at / kColumns;
      const Word joined = join_strided<Join, Word, kTurns * kColumns>(
          shared + at, (kGroups - turn + kTurns - 1) / kTurns);
      (kTurns > 1 ? shared : part)[at] = joined;
    }
  }
  if constexpr (kTurns > 1) {
    __syncthreads();
    for (int column = threadIdx.x; column < kColumns; column += kBlock)
      part[column] = join_strided<Join, Word, kColumns>(shared + column, kTurns);
  }
}

// All that a thread holds, as parts of one column.
template <class Join, class Word, int kChunks, int kVector>
SINTER_DEVICE Word join_held(const Word (&held)[kChunks][kVector]) {
  Word words[kChunks * kVector];
#pragma unroll
  for (int i = 0; i < kChunks * kVector; ++i) words[i] = held[i / kVector][i % kVector];
  return join_parts<Join, Word>(words);
}

// Joins kWidth columns from `column` on, over parts first, first + kStep, .. below `count`. The
// parts of a batch are read before any is joined.
template <class Join, class Word, int kStep, int kColumns, int kWidth>
SINTER_DEVICE void join_every(const Word* parts, int first, int count, int column,
                              Word (&joined)[kWidth]) {
#pragma unroll
  for (int e = 0; e < kWidth; ++e) joined[e] = Join::empty(Word{});
#pragma unroll 1
  for (; first < count; first += kPartsAtOnce * kStep) {
    Word some[kWidth][kPartsAtOnce + 1];
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) {
      Word words[kWidth];
#pragma unroll
      for (int e = 0; e < kWidth; ++e) words[e] = Join::empty(Word{});
      const int part = first + i * kStep;
      if (part < count) load_part(words, parts + static_cast<long long>(part) * kColumns + column);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) some[e][i] = words[e];
    }
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      some[e][kPartsAtOnce] = joined[e];
      joined[e] = join_parts<Join, Word>(some[e]);
    }
  }
}

// Joins all parts, each of kBlocks blocks, and stores the results. Blocks take 32 columns at a
// time, and the warps of a block divide the parts. `shared` has kBlock words. Called by all threads
// after a grid barrier; the results are there after another.
template <class Join, class Word, int kBlock, int kBlocks, int kColumns, class Results>
SINTER_DEVICE void join_columns(const Word* parts, Word* shared, const Results& results) {
  constexpr int kWarps = kBlock / 32;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int count = gridDim.x / kBlocks;
  for (int base = blockIdx.x * 32; base < kColumns; base += gridDim.x * 32) {
    const int column = base + lane < kColumns ? base + lane : kColumns - 1;
    Word joined[1];
    join_every<Join, Word, kWarps, kColumns>(parts, warp, count, column, joined);
    __syncthreads();
    shared[threadIdx.x] = joined[0];
    __syncthreads();
    if (warp == 0 && base + lane < kColumns) {
      results.put(base + lane, join_strided<Join, Word, 32>(shared + lane, kWarps));
    }
  }
}

// The same by each block, into its own shared memory: no second barrier of the grid, but every
// block reads all parts. Where a block has more threads than columns, several threads divide the
// parts of a column. `shared` has 16 bytes a thread.
template <class Join, class Word, int kBlock, int kBlocks, int kColumns, class Results>
SINTER_DEVICE void join_all_columns(const Word* parts, Word* shared, const Results& results) {
  constexpr int kPack = 16 / sizeof(Word);
  constexpr int kWidth = kColumns % kPack == 0 ? kPack : 1, kPacks = kColumns / kWidth;
  constexpr int kMostTurns = 32;
  constexpr int kFit = kBlock / kPacks < kMostTurns ? kBlock / kPacks : kMostTurns;
  constexpr int kTurns = kFit > 1 ? kFit : 1;
  const int count = gridDim.x / kBlocks;
  for (int at = threadIdx.x; at < kPacks * kTurns; at += kBlock) {
    const int turn = at / kPacks, column = at % kPacks * kWidth;
    Word joined[kWidth];
    join_every<Join, Word, kTurns, kColumns>(parts, turn, count, column, joined);
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      if constexpr (kTurns > 1)
        shared[turn * kColumns + column + e] = joined[e];
      else
        results.put(column + e, joined[e]);
    }
  }
  __syncthreads();
  if constexpr (kTurns > 1) {
    for (int column = threadIdx.x; column < kColumns; column += kBlock) {
      results.put(column, join_strided<Join, Word, kColumns>(shared + column, kTurns));
    }
    __syncthreads();
  }
}

}  // namespace sinter
