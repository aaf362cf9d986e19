// CUDA's keywords and types on the host, only as far as arithmetic needs them.
#pragma once
#include <cmath>
#include <cstring>
#include <limits>

#define SINTER_DEVICE inline

namespace sinter {

using u16 = unsigned short;
using u32 = unsigned int;

inline u32 __float_as_uint(float x) {
  u32 bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float __uint_as_float(u32 bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }

}  // namespace sinter
