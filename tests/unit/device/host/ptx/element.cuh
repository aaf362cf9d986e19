#pragma once
#include "ptx/types.cuh"

namespace sinter {

// A 16-bit integer where kernels have bf16 or f16.
struct Integer16 {
  static u32 pack(float low, float high) {
    return static_cast<u16>(static_cast<int>(low)) |
           static_cast<u32>(static_cast<u16>(static_cast<int>(high))) << 16;
  }
  static float unpack(u16 bits) { return static_cast<short>(bits); }
};

}  // namespace sinter
