// Powers of a row's scores about the largest of them.
#pragma once
#include "ptx/approx.cuh"

namespace sinter {

constexpr float kLog2E = 1.4426950408889634f;

// The least power of two that is not less than x > 0.
constexpr float power_of_two_above(float x) {
  float power = 1;
  while (power < x && power < 0x1p127f) power *= 2;
  while (power / 2 >= x) power /= 2;
  return power;
}

// exp2(scale (score - most)) by one fused multiply-add a score, for scale > 0. Its subtrahend
// scale * most is rounded. Below kBound the rounding is at most 8: it multiplies all powers and
// sums of the row by one factor, which the division by the sum takes back. From kBound on it could
// overflow. There scores that differ lie 16 apart, and a power of two takes the place of the scale:
// its product with `most` is exact, so that the largest score's power is 1, and others' powers are
// 2^-16 at most either way.
template <class Config>
struct ScaledPowers {
  static constexpr float kScale = Config::kScale, kBound = 0x1p28f / kScale;
  static constexpr float kExactScale = power_of_two_above(kScale);
  float scale, shift;

  explicit SINTER_DEVICE ScaledPowers(float most)
      : scale(fabsf(most) < kBound ? kScale : kExactScale), shift(__fmul_rn(most, scale)) {}
  SINTER_DEVICE float of(float score) const { return exp2_approx(fmaf(score, scale, -shift)); }
  // The factor of sums that were made about `before`. It is 1 if `before` is `most`.
  SINTER_DEVICE float factor(float before) const {
    return exp2_approx(__fmul_rn(before, scale) - shift);
  }
};

// exp(score - most). The difference of equal scores is 0: no compiler may fuse the subtraction with
// a multiplication before it.
struct PlainPowers {
  float shift;
  explicit SINTER_DEVICE PlainPowers(float most) : shift(most) {}
  SINTER_DEVICE float of(float score) const {
    return exp2_approx(__fsub_rn(score, shift) * kLog2E);
  }
  SINTER_DEVICE float factor(float before) const { return of(before); }
};

template <class Config, bool kScaled>
struct PowersOf {
  using Type = PlainPowers;
};
template <class Config>
struct PowersOf<Config, true> {
  using Type = ScaledPowers<Config>;
};

}  // namespace sinter
