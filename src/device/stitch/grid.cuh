// Grid composition: a barrier of all blocks of a cooperative launch.
#pragma once
#include "ptx/debug.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"

namespace sinter {

// The word's highest bit changes when the last block arrives: block 0 adds what the others leave to
// the half of a word's range, so the rest of the word is 0 again, and launches of different grids
// may take turns on one word. All threads; every block is resident.
SINTER_DEVICE void grid_barrier(u32* word) {
  constexpr u32 kHalf = 0x80000000u;
  __syncthreads();
  if (threadIdx.x == 0) {
    const u32 own = blockIdx.x == 0 ? kHalf - (gridDim.x - 1) : 1;
    u32 before;
    jitter();
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(word), "r"(own)
                 : "memory");
    SpinGuard guard;
    while (((load_acquire_gpu(word) ^ before) & kHalf) == 0) guard.turn();
  }
  __syncthreads();
}

}  // namespace sinter
