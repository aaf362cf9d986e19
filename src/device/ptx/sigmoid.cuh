// The logistic function without a branch.
#pragma once
#include "ptx/approx.cuh"

namespace sinter {

// 4 / (1 + e^-x) within two units in the last place of f32. Four times the function, because this
// is a normal number wherever x times the function is one. The reciprocal's error is taken back,
// but where it is zero because e^-x is infinite.
SINTER_DEVICE float four_sigmoids(float x) {
  const float sum = fmaf(0.25f, expf(-x), 0.25f);
  const float inverse = reciprocal_approx(sum);
  const float corrected = fmaf(inverse, fmaf(-sum, inverse, 1.0f), inverse);
  return inverse > 0.0f ? corrected : inverse;
}

}  // namespace sinter
