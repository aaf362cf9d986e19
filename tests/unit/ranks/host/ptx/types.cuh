// The host's stand-ins for src/device/ptx: the same names, run by tests/unit/ranks/explorer.h. The
// protocol is compiled as it is. A block has one thread, a warp one lane.
#pragma once

#include "tests/unit/device/host_words.h"
#include "tests/unit/ranks/explorer.h"

#define __shared__ static

namespace sinter {

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
float __shfl_xor_sync(u32 lanes, float value, int mask);  // only for sums of squares
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }

}  // namespace sinter
