// Arithmetic that CUDA C++ has no word for. Errors of approximate instructions are a few units in
// the last place, 2^-11 for tanh; `ftz` takes denormals for zero and gives zero for them. Of two
// numbers the larger and the smaller, where a NaN stays a NaN.
#pragma once
#include "ptx/types.cuh"

namespace sinter {

SINTER_DEVICE float exp2_approx(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
SINTER_DEVICE float reciprocal_approx(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
// Of denormals too.
SINTER_DEVICE float rsqrt_approx(float x) {
  float r;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
SINTER_DEVICE float tanh_approx(float x) {
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
SINTER_DEVICE float keep_nan_max(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}
SINTER_DEVICE float keep_nan_min(float a, float b) {
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

}  // namespace sinter
