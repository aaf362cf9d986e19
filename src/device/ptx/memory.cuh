// Loads and stores that need a state space, a scope or a vector width.
#pragma once
#include "ptx/types.cuh"

namespace sinter {

struct Float2 { float x, y; };
struct alignas(16) Float4 { float x, y, z, w; };
struct alignas(16) Word4 { u32 x, y, z, w; };

SINTER_DEVICE void store_cluster(u32 remote, float x, float y) {
  asm volatile("st.shared::cluster.v2.f32 [%0], {%1, %2};" ::"r"(remote), "f"(x), "f"(y) : "memory");
}
SINTER_DEVICE void store_cluster(u32 remote, Word4 v) {
  asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(remote), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
SINTER_DEVICE void store_cluster(u32 remote, u32 v) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(remote), "r"(v) : "memory");
}
SINTER_DEVICE void store_shared(u32 address, Word4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
SINTER_DEVICE Float4 load_shared(u32 address) {
  Float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address) : "memory");
  return v;
}
SINTER_DEVICE u32 load_acquire_gpu(const u32* p) {
  u32 v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
SINTER_DEVICE void store_release_gpu(u32* p, u32 v) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

}  // namespace sinter
