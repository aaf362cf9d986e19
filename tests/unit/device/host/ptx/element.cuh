#pragma once
#include "ptx/element_sizes.cuh"
#include "ptx/types.cuh"

namespace sinter {

struct Float32 : ElementSizes<float> {
  static float unpack(float x) { return x; }
};

// A 16-bit integer where kernels have bf16 or f16.
struct Integer16 : ElementSizes<u16> {
  static u32 pack(float low, float high) {
    return static_cast<u16>(static_cast<int>(low)) |
           static_cast<u32>(static_cast<u16>(static_cast<int>(high))) << 16;
  }
  static float unpack(u16 bits) { return static_cast<short>(bits); }
};

}  // namespace sinter
