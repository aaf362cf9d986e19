// Special functions of the hardware. Errors are a few units in the last place, 2^-11 for tanh.
// Denormals are flushed to zero.
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

}  // namespace sinter
