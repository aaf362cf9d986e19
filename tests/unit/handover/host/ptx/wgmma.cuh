#pragma once
#include "ptx/types.cuh"

namespace sinter {

u32 transpose_8x8(u32 pair);  // by no exchange

}  // namespace sinter
