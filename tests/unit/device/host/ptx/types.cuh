// The host's stand-ins for src/device/ptx: the same names, run by tests/unit/device/machine.h. The
// rest of the device library is compiled as it is.
#pragma once

#include "tests/unit/device/host_words.h"
#include "tests/unit/device/machine.h"

namespace sinter {

struct TensorMap {
  const hardware::Matrix* matrix;
  const hardware::Images* images = nullptr;  // of an im2col map
  const hardware::Taps* taps = nullptr;      // of a map of three dimensions
};

struct ThreadIndex {
  unsigned x = 0;
};
inline thread_local ThreadIndex threadIdx, blockIdx, blockDim, gridDim;

#define __shared__  // of a declaration only: shared memory is the machine's
constexpr u32 kDynamicShared = 1024;
inline u32 shared_address(const void*) { return kDynamicShared; }

inline void __syncthreads() {}
inline void __syncwarp() {}
inline int __all_sync(u32, bool) { return 1; }
template <class T>
inline T __shfl_sync(u32, T value, int) {
  return value;
}
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float fminf(float a, float b) { return a < b ? a : b; }
inline float fmaxf(float a, float b) { return a > b ? a : b; }
inline u32 __shfl_xor_sync(u32, u32 value, int lanes) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return hardware::machine.Shuffle(lane, value, lane ^ lanes);
}

}  // namespace sinter
