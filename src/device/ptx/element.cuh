// The 16-bit and 8-bit element types: conversion to and from f32. Rounding is to nearest even.
#pragma once
#include "ptx/types.cuh"

namespace sinter {

struct BFloat16 {
  static SINTER_DEVICE u32 pack(float low, float high) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
  static SINTER_DEVICE float unpack(u16 bits) {
    return __uint_as_float(static_cast<u32>(bits) << 16);
  }
  // Of a pair, without taking it apart first.
  static SINTER_DEVICE float low(u32 pair) { return __uint_as_float(pair << 16); }
  static SINTER_DEVICE float high(u32 pair) { return __uint_as_float(pair & 0xFFFF0000u); }
};

struct Float16 {
  static SINTER_DEVICE u32 pack(float low, float high) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
  }
  static SINTER_DEVICE float unpack(u16 bits) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
    return r;
  }
  static SINTER_DEVICE float low(u32 pair) { return unpack(static_cast<u16>(pair)); }
  static SINTER_DEVICE float high(u32 pair) { return unpack(static_cast<u16>(pair >> 16)); }
};

// Saturates to +-448; every NaN becomes 0x7f.
struct FloatE4M3 {
  // Pairs of codes: one conversion for both.
  static SINTER_DEVICE u16 pack(float low, float high) {
    u16 r;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(high), "f"(low));
    return r;
  }
  static SINTER_DEVICE u32 halves(u16 pair) {
    u32 r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(pair));
    return r;
  }
  static SINTER_DEVICE unsigned char pack(float x) {
    return static_cast<unsigned char>(pack(x, 0.0f));
  }
  // Exact: f16 holds all of them.
  static SINTER_DEVICE float unpack(unsigned char bits) { return Float16::low(halves(bits)); }
};

}  // namespace sinter
