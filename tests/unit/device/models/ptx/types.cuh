// CUDA's keywords and types on the host, only as far as arithmetic needs them.
#pragma once
#include <limits>

#include "tests/unit/device/host_words.h"

namespace sinter {

inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }

}  // namespace sinter
