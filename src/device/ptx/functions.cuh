// Functions made of approximate instructions: the error function, the logistic function, quotients.
#pragma once
#include "ptx/approx.cuh"

namespace sinter {

// The error function where 1 is added to it, or it is added to 1: right to 4e-7 of 1.

// Abramowitz and Stegun, 7.1.26: within 1.5e-7 of the value.
SINTER_DEVICE float erf_beside_one(float x) {
  const float a = fabsf(x), t = reciprocal_approx(fmaf(0.3275911f, a, 1.0f));
  const float p =
      t * fmaf(t,
               fmaf(t, fmaf(t, fmaf(t, 1.061405429f, -1.453152027f), 1.421413741f), -0.284496736f),
               0.254829592f);
  return copysignf(fmaf(-p, exp2_approx(-a * a * 1.4426950408889634f), 1.0f), x);
}

// The logistic function without a branch.

// 4 / (1 + e^-x) within two units in the last place of f32. Four times the function, because this
// is a normal number wherever x times the function is one. The reciprocal's error is taken back,
// but where it is zero because e^-x is infinite.
SINTER_DEVICE float four_sigmoids(float x) {
  const float sum = fmaf(0.25f, expf(-x), 0.25f);
  const float inverse = reciprocal_approx(sum);
  const float corrected = fmaf(inverse, fmaf(-sum, inverse, 1.0f), inverse);
  return inverse > 0.0f ? corrected : inverse;
}

// Quotients by the approximate reciprocal, for divisors of any magnitude. The instruction alone
// gives zero for divisors above 2^126 and infinity for denormals.

// A power of two near 1 / sqrt(|b|). b times it is a normal number, and so is a times it wherever
// a / b is one.
SINTER_DEVICE float balance_of(float b) {
  return __uint_as_float(0x5F000000u - (__float_as_uint(b) >> 1 & 0x3F800000u));
}

// a / b within 2^-22. Quotients by one b share all but two multiplications.
SINTER_DEVICE float quotient_approx(float a, float b) {
  const float balance = balance_of(b);
  return a * balance * reciprocal_approx(b * balance);
}
// 1 / b within 2^-22.
SINTER_DEVICE float whole_reciprocal_approx(float b) {
  const float balance = balance_of(b);
  return balance * reciprocal_approx(b * balance);
}

}  // namespace sinter
