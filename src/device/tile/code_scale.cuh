// The scale of a group of results that are stored as e4m3 codes:
// max(min(largest magnitude, bound), eps) / 448, or, where kPow2, the least power of two that is
// not less. A NaN makes the scale NaN, and so all codes of its group.
#pragma once
#include "ptx/types.cuh"

namespace sinter {

// Magnitudes as the bits of an f32 without its sign, whose order is theirs; of a NaN the largest.
SINTER_DEVICE u32 magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }
SINTER_DEVICE u32 larger(u32 a, u32 b) { return a > b ? a : b; }

struct CodeScale {
  float scale, inverse;  // codes are results times `inverse`
};

template <bool kPow2>
SINTER_DEVICE CodeScale code_scale(u32 largest_magnitude, float eps, float bound) {
  float largest = __uint_as_float(largest_magnitude);
  if (largest == largest) largest = fmaxf(fminf(largest, bound), eps);
  const float scale = largest / 448.0f;
  if constexpr (!kPow2) return {scale, 448.0f / largest};
  const float normal = scale < 0x1p-126f ? 0x1p-126f : scale;
  const float power = scale == scale
                          ? __uint_as_float((__float_as_uint(normal) + 0x007FFFFFu) & 0x7F800000u)
                          : scale;
  return {power, 1.0f / power};
}

}  // namespace sinter
