#pragma once
#include "ptx/memory.cuh"

namespace sinter {

inline void bulk_load(u32 destination, const float* from, u32 bytes, u32 barrier) {
  for (u32 i = 0; i < bytes / 4; ++i) hardware::machine.Store(destination + 4 * i, from[i]);
  hardware::machine.Arrive(barrier, bytes);
}

}  // namespace sinter
