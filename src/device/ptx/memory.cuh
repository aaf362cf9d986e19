// Loads and stores that need a state space, a scope or a vector width.
#pragma once
#include "ptx/debug.cuh"
#include "ptx/types.cuh"

namespace sinter {

struct alignas(16) Float4 {
  float x, y, z, w;
};
struct alignas(16) Word4 {
  u32 x, y, z, w;
};

// st.async: stores to a peer's shared memory. The bytes complete on a barrier of the same peer, and
// are visible to threads that wait there. `remote` and `barrier` are addresses from map_to_rank()
// of one rank.
SINTER_DEVICE void store_async(u32 remote, u32 barrier, float x, float y) {
  jitter();
  const u64 both = static_cast<u64>(__float_as_uint(x)) | static_cast<u64>(__float_as_uint(y))
                                                              << 32;
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(
          remote),
      "l"(both), "r"(barrier)
      : "memory");
}
SINTER_DEVICE void store_async(u32 remote, u32 barrier, Word4 v) {
  jitter();
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(remote),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
      : "memory");
}
SINTER_DEVICE void store_async(u32 remote, u32 barrier, u32 v) {
  jitter();
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(
          remote),
      "r"(v), "r"(barrier)
      : "memory");
}
SINTER_DEVICE void store_shared(u32 address, Word4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}
SINTER_DEVICE Float4 load_shared(u32 address) {
  Float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
SINTER_DEVICE Word4 load_shared_words(u32 address) {
  Word4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
// From any block of the cluster: `remote` is an address from map_to_rank().
SINTER_DEVICE Float4 load_remote(u32 remote) {
  Float4 v;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(remote)
               : "memory");
  return v;
}
SINTER_DEVICE void store_shared(u32 address, u32 v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
SINTER_DEVICE void store_shared(u32 address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}
// 16 bytes from global to shared memory; zeros of `bytes` 0, where nothing is read.
SINTER_DEVICE void copy_async(u32 to, const void* from, u32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
// 4 bytes from global to shared memory.
SINTER_DEVICE void copy_word_async(u32 to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
// A count of the block: who sees it sees what its warps, each behind __syncwarp(), stored before.
SINTER_DEVICE void add_release_shared(u32 address, u32 v) {
  asm volatile("red.release.cta.shared.add.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}
SINTER_DEVICE u32 load_acquire_shared(u32 address) {
  u32 v;
  asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
SINTER_DEVICE u32 load_shared_word(u32 address) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address) : "memory");
  return v;
}
// NAME loads 16 bytes, 16-byte aligned, by an instruction of four words; it stays where it stands
// between other accesses.
#define SINTER_LOAD_WORD4(NAME, INSTRUCTION)                  \
  SINTER_DEVICE Word4 NAME(const Word4* p) {                  \
    Word4 v;                                                  \
    asm volatile(INSTRUCTION " {%0, %1, %2, %3}, [%4];"       \
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) \
                 : "l"(p)                                     \
                 : "memory");                                 \
    return v;                                                 \
  }
SINTER_LOAD_WORD4(load_now, "ld.global.v4.b32")
// Not ordered with other accesses to memory, but behind waits.
SINTER_DEVICE int load_past_l1(const int* p) {
  int v;
  asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}
SINTER_DEVICE void prefetch_l2(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
SINTER_DEVICE u32 load_relaxed_gpu(const u32* p) {
  u32 v;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
SINTER_DEVICE void store_relaxed_gpu(u32* p, u32 v) {
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
// 8-byte aligned.
SINTER_DEVICE void store_relaxed_gpu(float* to, float x, float y) {
  asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(x), "f"(y) : "memory");
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
