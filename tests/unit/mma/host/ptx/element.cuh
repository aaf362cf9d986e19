// Elements that are integers of their size, whose sums are exact.
#pragma once
#include "ptx/element_sizes.cuh"
#include "ptx/types.cuh"

namespace sinter {

struct FloatPair {
  float low, high;
};
struct Float32 : ElementSizes<float> {
  using Pair = FloatPair;
  static Pair pack(float low, float high) { return {low, high}; }
  static float unpack(float x) { return x; }
};
struct Integer16 : ElementSizes<short> {
  using Pair = u32;
  static Pair pack(float low, float high) {
    return static_cast<u16>(static_cast<short>(low)) |
           static_cast<u32>(static_cast<u16>(static_cast<short>(high))) << 16;
  }
  static float unpack(short x) { return x; }
};
struct Signed8 : ElementSizes<signed char> {
  using Sum = int;
  static float unpack(signed char x) { return x; }
};
struct Promoted8 : ElementSizes<signed char> {
  static constexpr bool kPromoted = true;
  static float unpack(signed char x) { return x; }
};

}  // namespace sinter
