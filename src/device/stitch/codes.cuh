// What kernels with values of s8 or with powers of two include; others keep their headers.
#pragma once
#include "stitch/stitch.cuh"

namespace sinter {

struct ElementS8 {
  using Stored = signed char;
  using Word = int;
  using Pair = void;
  static SINTER_DEVICE int word(signed char stored) { return stored; }
  static SINTER_DEVICE signed char stored(int word) { return static_cast<signed char>(word); }
};

// Casts to s8: to nearest even, saturating, NaN gives 0.
SINTER_DEVICE int to_s8(float x) {
  int r;
  asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}
SINTER_DEVICE int to_s8(int x) { return Common::max(-128, Common::min(127, x)); }
SINTER_DEVICE int to_s8(bool x) { return x ? 1 : 0; }

// The smallest power of two that is not less, and 2^-126 or more. NaN stays; above 2^127 infinite.
SINTER_DEVICE float ceil_pow2(float x) {
  const u32 bits = __float_as_uint(keep_nan_max(x, __uint_as_float(0x00800000u)));
  return x == x ? __uint_as_float((bits + 0x007FFFFFu) & 0x7F800000u) : x;
}

}  // namespace sinter
