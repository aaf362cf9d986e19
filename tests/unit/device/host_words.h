// CUDA's keywords and types on the host, as far as every stand-in for src/device/ptx needs them.
#pragma once
#include <cmath>
#include <cstring>

#define SINTER_DEVICE inline

namespace sinter {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

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

}  // namespace sinter
