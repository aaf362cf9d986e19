// Loads, stores and atomics of the scope of the system: for memory that other GPUs or the host read
// and write. All are relaxed: none orders another, but for the end of the kernel.
#pragma once
#include "ptx/memory.cuh"

namespace sinter {

// Polls of a wait between two looks at the clock, and between two at the host's word, which lies
// behind PCIe.
constexpr u32 kPollsPerCheck = 256, kPollsPerHostCheck = 2048;
// Lanes that vote together.
constexpr int kVoters = 32;

SINTER_DEVICE u32 load_system(const u32* p) {
  u32 v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
SINTER_DEVICE void store_system(u32* p, u32 v) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// Four accesses, which others may see in any order.
SINTER_LOAD_WORD4(load_system, "ld.relaxed.sys.global.v4.b32")
SINTER_DEVICE void store_system(Word4* p, Word4 v) {
  jitter();
  asm volatile("st.relaxed.sys.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}

// The same as one access: others see all of it or nothing.
SINTER_DEVICE Word4 load_system_whole(const Word4* p) {
  u64 low, high;
  asm volatile("{.reg .b128 t; ld.relaxed.sys.global.b128 t, [%2]; mov.b128 {%0, %1}, t;}"
               : "=l"(low), "=l"(high)
               : "l"(p)
               : "memory");
  return {static_cast<u32>(low), static_cast<u32>(low >> 32), static_cast<u32>(high),
          static_cast<u32>(high >> 32)};
}
SINTER_DEVICE void store_system_whole(Word4* p, Word4 v) {
  jitter();
  asm volatile("{.reg .b128 t; mov.b128 t, {%1, %2}; st.relaxed.sys.global.b128 [%0], t;}" ::"l"(p),
               "l"(v.x | static_cast<u64>(v.y) << 32), "l"(v.z | static_cast<u64>(v.w) << 32)
               : "memory");
}

// Atomics of this GPU, relaxed too. Both return what was there.
SINTER_DEVICE u32 fetch_add_gpu(u32* p, u32 v) {
  u32 old;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(p), "r"(v)
               : "memory");
  return old;
}
SINTER_DEVICE u32 compare_and_swap_gpu(u32* p, u32 expected, u32 desired) {
  u32 old;
  asm volatile("atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;"
               : "=r"(old)
               : "l"(p), "r"(expected), "r"(desired)
               : "memory");
  return old;
}

// The host's stand-in sleeps here until something that a wait reads has changed.
SINTER_DEVICE void poll_missed() {}

}  // namespace sinter
