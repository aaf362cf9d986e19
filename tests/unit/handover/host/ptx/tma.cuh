#pragma once
#include "ptx/memory.cuh"

namespace sinter {

inline void bulk_load(u32 destination, const float* from, u32 bytes, u32 barrier) {
  simulator->LoadBulk(destination, from, bytes, barrier);
}

}  // namespace sinter
