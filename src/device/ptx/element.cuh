// The element types: a struct each, with its storage, its sizes and its conversion from and to f32.
// Rounding is to nearest even. A Pair is two neighbouring elements, the first in the low bits.
#pragma once
#include "ptx/element_sizes.cuh"
#include "ptx/types.cuh"
#if __CUDA_ARCH__ >= 890
#else
#include "ptx/e4m3.cuh"
#endif

namespace sinter {

struct alignas(8) FloatPair {
  float low, high;
};

struct Float32 : ElementSizes<float> {
  using Pair = FloatPair;
  static SINTER_DEVICE Pair pack(float low, float high) { return {low, high}; }
  static SINTER_DEVICE Pair join(float low, float high) { return {low, high}; }
  static SINTER_DEVICE float unpack(float x) { return x; }
  static SINTER_DEVICE float low(Pair pair) { return pair.low; }
  static SINTER_DEVICE float high(Pair pair) { return pair.high; }
};

// Two stored elements of 16 bits as a Pair.
struct Joined16 {
  static SINTER_DEVICE u32 join(u16 low, u16 high) { return low | static_cast<u32>(high) << 16; }
};

struct BFloat16 : ElementSizes<u16>, Joined16 {
  using Pair = u32;
  static SINTER_DEVICE Pair pack(float low, float high) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
  // Of the ReLUs of both. NaN stays NaN.
  static SINTER_DEVICE Pair pack_relu(float low, float high) {
    u32 r;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
  static SINTER_DEVICE float unpack(Stored bits) {
    return __uint_as_float(static_cast<u32>(bits) << 16);
  }
  static SINTER_DEVICE float low(Pair pair) { return __uint_as_float(pair << 16); }
  static SINTER_DEVICE float high(Pair pair) { return __uint_as_float(pair & 0xFFFF0000u); }
};

struct Float16 : ElementSizes<u16>, Joined16 {
  using Pair = u32;
  static SINTER_DEVICE Pair pack(float low, float high) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
  static SINTER_DEVICE Pair pack_relu(float low, float high) {
    u32 r;
    asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
  static SINTER_DEVICE float unpack(Stored bits) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
    return r;
  }
  static SINTER_DEVICE float low(Pair pair) { return unpack(static_cast<u16>(pair)); }
  static SINTER_DEVICE float high(Pair pair) { return unpack(static_cast<u16>(pair >> 16)); }
};

// Saturates to +-448; every NaN becomes 0x7f.
struct FloatE4M3 : ElementSizes<unsigned char> {
  using Pair = u16;
  static constexpr bool kPromoted = true;
#if __CUDA_ARCH__ >= 890
  static SINTER_DEVICE Pair pack(float low, float high) {
    u16 r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
    return r;
  }
  // Exact: f16 holds every value of the type.
  static SINTER_DEVICE u32 to_float16(Pair pair) {
    u32 r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(pair));
    return r;
  }
#else
  static SINTER_DEVICE Pair pack(float low, float high) {
    return static_cast<Pair>(e4m3_of(low) | e4m3_of(high) << 8);
  }
  static SINTER_DEVICE u32 to_float16(Pair pair) {
    return Float16::pack(float_of_e4m3(pair), float_of_e4m3(pair >> 8));
  }
#endif
  static SINTER_DEVICE float unpack(Stored bits) { return Float16::low(to_float16(bits)); }
  static SINTER_DEVICE float low(Pair pair) { return Float16::low(to_float16(pair)); }
  static SINTER_DEVICE float high(Pair pair) { return Float16::high(to_float16(pair)); }
};

// Of products whose sums stay in the tensor cores for all of K.
struct FastFloatE4M3 : FloatE4M3 {
  static constexpr bool kPromoted = false;
};

// An operand of products alone.
struct Signed8 : ElementSizes<signed char> {
  using Sum = int;
  static constexpr bool kExact = true;
};

}  // namespace sinter
