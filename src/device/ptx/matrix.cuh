// Transposes of 8x8 matrices of 16-bit elements that a warp holds.
#pragma once
#include "ptx/types.cuh"

namespace sinter {

// Lane l holds element (l / 4, 2 (l % 4)) and the one to its right, and gets those of the
// transpose. All lanes call.
SINTER_DEVICE u32 transpose_8x8(u32 pair) {
  u32 turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
  return turned;
}

}  // namespace sinter
