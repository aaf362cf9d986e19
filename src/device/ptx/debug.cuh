// Hooks of the test builds. SINTER_TRAP_SPINS: a spin that lasts longer than 2 s traps, so that a
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

// Counts the turns of one spin loop.
struct SpinGuard {
#ifdef SINTER_TRAP_SPINS
  u32 turns = 0;
  u64 since = 0;
  SINTER_DEVICE void turn() {
    if ((++turns & 0x3FF) != 0) return;
    const u64 now = global_timer_ns();
    if (since == 0) since = now;
    if (now - since > 2000000000ull) asm volatile("trap;");
  }
#else
  SINTER_DEVICE void turn() {}
#endif
};

SINTER_DEVICE void jitter() {
#ifdef SINTER_JITTER
  u32 clock, sm;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(clock));
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  u32 x = (clock + sm * 0x9E3779B9u) * 0x85EBCA6Bu;
  x ^= x >> 13;
  if ((x & 3) == 0) asm volatile("nanosleep.u32 %0;" ::"r"((x >> 8) & 0x7FF));
#endif
}

}  // namespace sinter
