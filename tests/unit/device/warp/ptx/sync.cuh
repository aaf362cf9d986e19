#pragma once
#include "ptx/types.cuh"

namespace sinter {

inline void named_barrier(u32, u32) { __syncthreads(); }

}  // namespace sinter
