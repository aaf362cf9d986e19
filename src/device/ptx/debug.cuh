// Hooks of the test builds. SINTER_TRAP_SPINS: a spin that lasts longer than 2 s faults, so that a
// hang becomes an error. SINTER_JITTER: a random pause before every arrive, push and wait, so that
// a missing wait becomes a wrong result.
#pragma once
#include "ptx/types.cuh"

namespace sinter {

SINTER_DEVICE u64 global_timer_ns() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

// Watches one spin loop. It faults by a store to address 0, without a branch: a trap or a branch
// while wgmmas are in flight makes ptxas serialise them.
struct SpinGuard {
#ifdef SINTER_TRAP_SPINS
  u64 since = 0;
  SINTER_DEVICE void turn() {
    const u64 now = global_timer_ns();
    since = since == 0 ? now : since;
    const u32 too_long = now - since > 2000000000ull ? 1 : 0;
    asm volatile("{.reg .pred p; setp.ne.u32 p, %0, 0; @p st.global.u32 [%1], %0;}" ::"r"(too_long),
                 "l"(0ull)
                 : "memory");
  }
#else
  SINTER_DEVICE void turn() {}
#endif
};

// Has no branch: divergent control flow while wgmmas are in flight makes ptxas serialise them.
SINTER_DEVICE void jitter() {
#ifdef SINTER_JITTER
  u32 clock, sm;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  u32 x = (clock + sm * 0x9E3779B9u) * 0x85EBCA6Bu;
  x ^= x >> 13;
  asm volatile("nanosleep.u32 %0;" ::"r"((x & 3) == 0 ? (x >> 8) & 0x7FF : 0));
#endif
}

}  // namespace sinter
