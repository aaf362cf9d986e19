// Column reductions: results that all units have a part in. Each block leaves a part; those of a
// cluster may be joined through distributed shared memory; behind a barrier of the grid the parts
// are joined in their order, by blocks that share the columns out, or by each block for itself.
#pragma once
#include "stitch/group.cuh"
#include "stitch/moments.cuh"

namespace sinter {

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
    means[column] = joined.mean;
    moments[column] = joined.squares * scale;
  }
};

SINTER_DEVICE void load_peer(float& word, u32 address) {
  from_bits(word, load_cluster_word(address));
}
SINTER_DEVICE void load_peer(int& word, u32 address) {
  from_bits(word, load_cluster_word(address));
}
SINTER_DEVICE void load_peer(Moments& word, u32 address) {
  load_peer(word.mean, address);
  load_peer(word.squares, address + 4);
  load_peer(word.count, address + 8);
  word.unused = 0.0f;
}

// Neighbouring words of a part, past L1.
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

// Where this block's part of kColumns columns lies, if kBlocks neighbouring blocks leave one.
template <class Word, int kBlocks, int kColumns>
SINTER_DEVICE Word* own_part(unsigned char* parts) {
  return reinterpret_cast<Word*>(parts) + static_cast<long long>(blockIdx.x / kBlocks) * kColumns;
}

// Thread t of each group, in block `rank` of a cluster that shares units, holds partial results of
// columns ((j * kCluster + rank) * kThreads + t) * kVector + e. Joins the block's groups into
// `part`. `shared` has kGroups * kColumns words when kGroups > 1. All threads.
template <class Join, class Word, int kBlock, int kThreads, int kCluster, int kChunks, int kVector,
          int kColumns>
SINTER_DEVICE void leave_columns(const Word (&held)[kChunks][kVector], Word* shared, Word* part) {
  constexpr int kGroups = kBlock / kThreads;
  const int group = threadIdx.x / kThreads, thread = threadIdx.x % kThreads;
  const int rank = kCluster > 1 ? blockIdx.x % kCluster : 0;
  Word* to = kGroups > 1 ? shared + group * kColumns : part;
  if constexpr (kGroups > 1) __syncthreads();
#pragma unroll
  for (int j = 0; j < kChunks; ++j) {
    const int column = ((j * kCluster + rank) * kThreads + thread) * kVector;
#pragma unroll
    for (int e = 0; e < kVector; ++e) {
      if (column + e < kColumns) to[column + e] = held[j][e];
    }
  }
  if constexpr (kGroups > 1) {
    __syncthreads();
    for (int column = threadIdx.x; column < kColumns; column += kBlock) {
      Word joined = shared[column];
      for (int g = 1; g < kGroups; ++g) joined = Join::join(joined, shared[g * kColumns + column]);
      part[column] = joined;
    }
  }
}

// Joins the parts that the blocks of a cluster have in their shared memory at `mine`, in the order
// of their ranks: each rank its share of the columns. All threads, behind a barrier of the cluster;
// who writes to `mine` again has met all peers in between.
template <class Join, class Word, int kBlock, int kBlocks, int kColumns>
SINTER_DEVICE void gather_columns(const Word* mine, Word* part) {
  constexpr int kShare = (kColumns + kBlocks - 1) / kBlocks;
  const int first = static_cast<int>(cluster_rank()) * kShare;
  const int end = first + kShare < kColumns ? first + kShare : kColumns;
  for (int column = first + static_cast<int>(threadIdx.x); column < end; column += kBlock) {
    Word words[kBlocks];
#pragma unroll
    for (int b = 0; b < kBlocks; ++b)
      load_peer(words[b], map_to_rank(shared_address(mine + column), b));
#pragma unroll
    for (int b = 1; b < kBlocks; ++b) words[0] = Join::join(words[0], words[b]);
    part[column] = words[0];
  }
}

// Joins all parts, each of kBlocks blocks, and puts the results. Blocks share columns out 32 at a
// time; their warps share the parts. `shared` has kBlock words. All threads, after a grid barrier;
// the results are there after another.
template <class Join, class Word, int kBlock, int kBlocks, int kColumns, class Results>
SINTER_DEVICE void join_columns(const Word* parts, Word* shared, const Results& results) {
  constexpr int kWarps = kBlock / 32;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int count = gridDim.x / kBlocks;
  for (int base = blockIdx.x * 32; base < kColumns; base += gridDim.x * 32) {
    const int column = base + lane < kColumns ? base + lane : kColumns - 1;
    Word joined = Join::empty(Word{});
#pragma unroll 8
    for (int part = warp; part < count; part += kWarps) {
      Word words[1];
      load_part(words, parts + static_cast<long long>(part) * kColumns + column);
      joined = Join::join(joined, words[0]);
    }
    __syncthreads();
    shared[threadIdx.x] = joined;
    __syncthreads();
    if (warp == 0 && base + lane < kColumns) {
      for (int w = 1; w < kWarps; ++w) joined = Join::join(joined, shared[w * 32 + lane]);
      results.put(base + lane, joined);
    }
  }
}

// The same by each block for itself, into its own shared memory: no second barrier of the grid, but
// every block reads all parts. Its threads take turns at the parts of a column as far as there are
// more of them than columns. `shared` has 16 bytes a thread.
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
#pragma unroll
    for (int e = 0; e < kWidth; ++e) joined[e] = Join::empty(Word{});
#pragma unroll 8
    for (int part = turn; part < count; part += kTurns) {
      Word words[kWidth];
      load_part(words, parts + static_cast<long long>(part) * kColumns + column);
#pragma unroll
      for (int e = 0; e < kWidth; ++e) joined[e] = Join::join(joined[e], words[e]);
    }
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
      Word joined = shared[column];
#pragma unroll
      for (int turn = 1; turn < kTurns; ++turn)
        joined = Join::join(joined, shared[turn * kColumns + column]);
      results.put(column, joined);
    }
    __syncthreads();
  }
}

}  // namespace sinter
