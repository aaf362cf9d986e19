// Grid composition: what all blocks of a cooperative launch do together. Results of column
// reductions go through L2: each block leaves a partial one, blocks then share the columns out.
#pragma once
#include "ptx/debug.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "stitch/group.cuh"

namespace sinter {

// Words 0 and 1: blocks that have arrived, and barriers so far. The first is 0 between barriers, so
// launches of different grids may take turns on one pair. All threads; every block is resident.
SINTER_DEVICE void grid_barrier(u32* words) {
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 before = load_relaxed_gpu(words + 1);
    u32 arrived;
    jitter();
    asm volatile("atom.inc.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(arrived)
                 : "l"(words), "r"(gridDim.x - 1)
                 : "memory");
    if (arrived == gridDim.x - 1) {
      store_release_gpu(words + 1, before + 1);
    } else {
      SpinGuard guard;
      while (load_acquire_gpu(words + 1) == before) guard.turn();
    }
  }
  __syncthreads();
}

// A column reduction of kColumns columns: thread t of each group, in block `rank` of its cluster,
// holds partial results of columns ((j * kCluster + rank) * kThreads + t) * kVector + e. Joins the
// block's groups and leaves the cluster's part at `parts[cluster]`. `shared` has kGroups * kColumns
// words when kGroups > 1. All threads.
template <class Join, class Word, int kBlock, int kThreads, int kCluster, int kChunks, int kVector,
          int kColumns>
SINTER_DEVICE void leave_columns(const Word (&held)[kChunks][kVector], Word* shared, Word* parts) {
  constexpr int kGroups = kBlock / kThreads;
  const int group = threadIdx.x / kThreads, thread = threadIdx.x % kThreads;
  const int rank = kCluster > 1 ? blockIdx.x % kCluster : 0;
  Word* to = kGroups > 1 ? shared + group * kColumns
                         : parts + static_cast<long long>(blockIdx.x / kCluster) * kColumns;
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
      parts[static_cast<long long>(blockIdx.x) * kColumns + column] = joined;
    }
  }
}

// Joins the parts of all blocks, in their order, and writes the results, each times `scale`. Blocks
// share columns out 32 at a time; their warps share the parts. `shared` has kBlock words. All
// threads, after a grid barrier; the results are there after another.
template <class Join, class Word, int kBlock, int kCluster, int kColumns>
SINTER_DEVICE void join_columns(const Word* parts, Word* shared, Word* results, Word scale) {
  constexpr int kWarps = kBlock / 32;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int count = gridDim.x / kCluster;
  for (int base = blockIdx.x * 32; base < kColumns; base += gridDim.x * 32) {
    const int column = base + lane < kColumns ? base + lane : kColumns - 1;
    Word joined = Join::empty(Word{});
#pragma unroll 8
    for (int part = warp; part < count; part += kWarps)
      joined = Join::join(joined, __ldcg(parts + static_cast<long long>(part) * kColumns + column));
    __syncthreads();
    shared[threadIdx.x] = joined;
    __syncthreads();
    if (warp == 0 && base + lane < kColumns) {
      for (int w = 1; w < kWarps; ++w) joined = Join::join(joined, shared[w * 32 + lane]);
      results[base + lane] = joined * scale;
    }
  }
}

}  // namespace sinter
