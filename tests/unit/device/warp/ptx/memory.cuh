#pragma once
#include "ptx/types.cuh"

namespace sinter {

struct alignas(16) Word4 {
  u32 x, y, z, w;
};

}  // namespace sinter
