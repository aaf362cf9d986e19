#pragma once
#include "ptx/types.cuh"

namespace sinter {

struct alignas(16) Word4 {
  u32 x, y, z, w;
};

inline int load_past_l1(const int* p) { return *p; }

}  // namespace sinter
