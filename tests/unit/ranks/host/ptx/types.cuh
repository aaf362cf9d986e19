// The host's stand-ins for src/device/ptx: the same names, run by tests/unit/ranks/explorer.h. The
// protocol is compiled as it is. A block has one thread, a warp one lane.
#pragma once
#include <cmath>
#include <cstring>

#include "tests/unit/ranks/explorer.h"

#define SINTER_DEVICE inline
#define __shared__ static

namespace sinter {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

using rank_explorer::explorer;

struct BlockIndex {
  operator unsigned() const { return static_cast<unsigned>(explorer->Block()); }
};
struct GridSize {
  operator unsigned() const { return static_cast<unsigned>(explorer->Blocks()); }
};
inline struct { unsigned x = 0; } threadIdx;
inline struct { BlockIndex x; } blockIdx;
inline struct { GridSize x; } gridDim;

inline void __syncthreads() {}
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
float __shfl_xor_sync(u32 lanes, float value, int mask);  // only for sums of squares
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }

}  // namespace sinter
