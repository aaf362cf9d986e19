// The error function where 1 is added to it, or it is added to 1: right to 4e-7 of 1.
#pragma once
#include "ptx/approx.cuh"

namespace sinter {

// Abramowitz and Stegun, 7.1.26: within 1.5e-7 of the value.
SINTER_DEVICE float erf_beside_one(float x) {
  const float a = fabsf(x), t = reciprocal_approx(fmaf(0.3275911f, a, 1.0f));
  const float p =
      t * fmaf(t,
               fmaf(t, fmaf(t, fmaf(t, 1.061405429f, -1.453152027f), 1.421413741f), -0.284496736f),
               0.254829592f);
  return copysignf(fmaf(-p, exp2_approx(-a * a * 1.4426950408889634f), 1.0f), x);
}

}  // namespace sinter
