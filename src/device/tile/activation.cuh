// Activations, in f32, for results that are rounded to 16 bits or fewer; those whose name ends in
// F32 are for f32 results. A NaN stays a NaN. Sources: GELU, Hendrycks and Gimpel 2016 (erf and
// tanh forms); SiLU, Elfwing et al. 2017.
#pragma once
#include "ptx/approx.cuh"
#include "ptx/functions.cuh"

namespace sinter {

// 1 / (1 + 2^t); 0 where 2^t is infinite.
SINTER_DEVICE float sigmoid_of(float t) { return reciprocal_approx(1.0f + exp2_approx(t)); }

struct Identity {
  static SINTER_DEVICE float apply(float x) { return x; }
};
struct Relu {
  static SINTER_DEVICE float apply(float x) { return keep_nan_max(x, 0.0f); }
};
struct Silu {
  // A quarter of (1 + e^-x), whose reciprocal is a normal number wherever the result is one.
  static SINTER_DEVICE float apply(float x) {
    return 0.25f * x * reciprocal_approx(0.25f + exp2_approx(fmaf(x, -1.4426950408889634f, -2.0f)));
  }
};
struct SiluF32 {
  static SINTER_DEVICE float apply(float x) { return 0.25f * x * four_sigmoids(x); }
};
struct GeluErf {
  static SINTER_DEVICE float apply(float x) {
    return 0.5f * x * (1.0f + erf_beside_one(x * 0.70710678118654752f));
  }
};
struct GeluErfF32 {
  static SINTER_DEVICE float apply(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
  }
};
struct GeluTanh {
  static SINTER_DEVICE float apply(float x) {
    // 0.5 (1 + tanh u) = 1 / (1 + exp(-2u)) for u = 0.7978846 (x + 0.044715 x^3)
    return x * sigmoid_of(x * (-2.3022081984f - 0.1029432385f * x * x));
  }
};
struct GeluTanhF32 {
  static SINTER_DEVICE float apply(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * fmaf(0.044715f * x * x, x, x)));
  }
};

}  // namespace sinter
