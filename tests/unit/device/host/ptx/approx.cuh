// The host's special functions.
#pragma once
#include "ptx/types.cuh"

namespace sinter {

inline float exp2_approx(float x) { return std::exp2(x); }
inline float rsqrt_approx(float x) { return 1.0f / std::sqrt(x); }
inline float reciprocal_approx(float x) { return 1.0f / x; }
inline float keep_nan_max(float a, float b) {
  return std::isnan(a) ? a : std::isnan(b) ? b : a > b ? a : b;
}

}  // namespace sinter
