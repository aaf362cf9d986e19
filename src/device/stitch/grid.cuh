// Grid composition: a barrier of all blocks of a cooperative launch.
#pragma once
#include "ptx/debug.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"

namespace sinter {

// The word's highest bit flips when the last block arrives: block 0 adds 2^31 minus the number of
// other blocks, which add 1 each. The other bits are 0 again then, so launches of different grids
// may take turns on one word. Called by all threads; every block is resident.
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
