// The host's stand-ins for src/device/ptx: the same names, run by tests/unit/handover/simulator.h.
// The exchanges are compiled as they are.
#pragma once
#include <cmath>
#include <cstring>

#include "tests/unit/handover/simulator.h"

#define SINTER_DEVICE inline

namespace sinter {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

using handover_simulator::simulator;

// Consumer threads begin after the producer warpgroup.
struct ThreadIndex {
  operator unsigned() const { return 128 + static_cast<unsigned>(simulator->Thread()); }
};
inline struct { ThreadIndex x; } threadIdx;

inline float fmaxf(float a, float b) { return a > b ? a : b; }
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
u32 __shfl_xor_sync(u32 lanes, u32 value, int mask);  // by no exchange

}  // namespace sinter
