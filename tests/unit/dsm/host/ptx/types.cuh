// The host's stand-ins for src/device/ptx: the same names, run by tests/unit/dsm/simulator.h. The
// exchanges are compiled as they are.
#pragma once
#include <cmath>
#include <cstring>

#include "tests/unit/dsm/simulator.h"

#define SINTER_DEVICE inline

namespace sinter {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

using dsm_simulator::simulator;

inline u32 __float_as_uint(float x) {
  u32 bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float fmaxf(float a, float b) { return a > b ? a : b; }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }

}  // namespace sinter
