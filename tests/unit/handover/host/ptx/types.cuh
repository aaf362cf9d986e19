// The host's stand-ins for src/device/ptx: the same names, run by tests/unit/handover/simulator.h.
// The exchanges are compiled as they are.
#pragma once

#include "tests/unit/device/host_words.h"
#include "tests/unit/handover/simulator.h"

namespace sinter {

using handover_simulator::simulator;

// Consumer threads begin after the producer warpgroup.
struct ThreadIndex {
  operator unsigned() const { return 128 + static_cast<unsigned>(simulator->Thread()); }
};
inline struct { ThreadIndex x; } threadIdx;

inline float fmaxf(float a, float b) { return a > b ? a : b; }
u32 __shfl_xor_sync(u32 lanes, u32 value, int mask);  // by no exchange

}  // namespace sinter
