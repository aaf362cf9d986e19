#pragma once
#include "ptx/types.cuh"

namespace sinter {

struct Float32 {};

// Holds only integers that bf16 represents, and NaN.
struct BFloat16 {
  static u32 pack(float low, float high) {
    return __float_as_uint(low) >> 16 | (__float_as_uint(high) & 0xFFFF0000u);
  }
  static float low(u32 pair) { return __uint_as_float(pair << 16); }
  static float high(u32 pair) { return __uint_as_float(pair & 0xFFFF0000u); }
};

}  // namespace sinter
