// Types and macros that every device header uses. No header of the CUDA toolkit is needed.
#pragma once

#define SINTER_DEVICE __device__ __forceinline__

namespace sinter {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// A TMA tensor map, passed to kernels by value as a __grid_constant__ parameter; encoded by the
// driver.
struct alignas(64) TensorMap {
  u64 words[16];
};

// 32-bit address in the shared window of this block.
SINTER_DEVICE u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

}  // namespace sinter
