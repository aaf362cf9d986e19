// Activations, in f32. Sources: GELU, Hendrycks and Gimpel 2016 (erf and tanh forms); SiLU, Elfwing
// et al. 2017.
#pragma once
#include "ptx/types.cuh"

namespace sinter {

struct Identity {
  static SINTER_DEVICE float apply(float x) { return x; }
};
struct Relu {
  static SINTER_DEVICE float apply(float x) { return fmaxf(x, 0.0f); }
};
struct Silu {
  static SINTER_DEVICE float apply(float x) { return __fdividef(x, 1.0f + __expf(-x)); }
};
struct GeluErf {
  static SINTER_DEVICE float apply(float x) {
    return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
  }
};
struct GeluTanh {
  static SINTER_DEVICE float apply(float x) {
    const float u = 0.79788456080286536f * (x + 0.044715f * x * x * x);
    return x * __fdividef(1.0f, 1.0f + __expf(-2.0f * u));  // 0.5 (1 + tanh u) = 1 / (1 + exp(-2u))
  }
};

}  // namespace sinter
