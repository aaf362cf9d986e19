// Quotients by the approximate reciprocal, for divisors of any magnitude. The instruction alone
// gives zero for divisors above 2^126 and infinity for denormals.
#pragma once
#include "ptx/approx.cuh"

namespace sinter {

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
