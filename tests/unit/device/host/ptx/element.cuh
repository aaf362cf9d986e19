#pragma once
#include "ptx/element_sizes.cuh"
#include "ptx/types.cuh"

namespace sinter {

struct alignas(8) FloatPair {
  float low, high;
};

struct Float32 : ElementSizes<float> {
  using Pair = FloatPair;
  static Pair pack(float low, float high) { return {low, high}; }
  static Pair join(float low, float high) { return {low, high}; }
  static float unpack(float x) { return x; }
  static float low(Pair pair) { return pair.low; }
  static float high(Pair pair) { return pair.high; }
};

// A 16-bit integer where kernels have bf16 or f16.
struct Integer16 : ElementSizes<u16> {
  using Pair = u32;
  static u32 pack(float low, float high) {
    return static_cast<u16>(static_cast<int>(low)) |
           static_cast<u32>(static_cast<u16>(static_cast<int>(high))) << 16;
  }
  static u32 pack_relu(float low, float high) {
    return pack(low < 0 ? 0 : low, high < 0 ? 0 : high);
  }
  static u32 join(u16 low, u16 high) { return low | static_cast<u32>(high) << 16; }
  static float unpack(u16 bits) { return static_cast<short>(bits); }
  static float low(u32 pair) { return unpack(static_cast<u16>(pair)); }
  static float high(u32 pair) { return unpack(static_cast<u16>(pair >> 16)); }
};

// Codes of kernels' results: integers, saturated.
struct FloatE4M3 : ElementSizes<unsigned char> {
  static u16 pack(float low, float high) {
    const auto code = [](float x) {
      return static_cast<u16>(x > 127 ? 127 : x < -128 ? 128 : static_cast<int>(x) & 0xFF);
    };
    return static_cast<u16>(code(low) | code(high) << 8);
  }
};

// An 8-bit integer where kernels have e4m3.
struct Integer8 : ElementSizes<signed char> {
  static constexpr bool kPromoted = true;
};
struct FastInteger8 : Integer8 {
  static constexpr bool kPromoted = false;
};
struct Signed8 : ElementSizes<signed char> {
  using Sum = int;
  static constexpr bool kExact = true;
};

}  // namespace sinter
