// mbarrier: one wrapper per instruction form. A wait for a parity ends once the phase of that
// parity has completed. A fresh barrier is in phase 0, so a wait for parity 1 ends at once.
#pragma once
#include "ptx/debug.cuh"
#include "ptx/types.cuh"

namespace sinter {

SINTER_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to the async proxy, and to peers that pass a cluster barrier
// afterwards.
SINTER_DEVICE void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

SINTER_DEVICE void mbarrier_arrive(u32 barrier) {
  jitter();
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

SINTER_DEVICE void mbarrier_arrive_expect(u32 barrier, u32 bytes) {
  jitter();
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Arrives on the barrier at `remote`, an address from map_to_rank(), and releases this thread's
// writes to the cluster.
SINTER_DEVICE void mbarrier_arrive_remote(u32 remote) {
  jitter();
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote)
               : "memory");
}

// The same without a release, for a thread that has only read what the peer may now overwrite. A
// release would wait for every pending write of this thread, to global memory too.
SINTER_DEVICE void mbarrier_arrive_remote_read(u32 remote) {
  jitter();
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
}

// Arrives on the barrier, which counts it, once this thread's copy_async() so far have arrived.
SINTER_DEVICE void arrive_with_copies(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// Without a branch: one while wgmmas are in flight would serialise them.
SINTER_DEVICE void arrive_if(u32 barrier, u32 wanted) {
  asm volatile(
      "{.reg .pred p; setp.ne.u32 p, %1, 0; @p mbarrier.arrive.shared::cta.b64 _, [%0];}" ::"r"(
          barrier),
      "r"(wanted)
      : "memory");
}

// arrive_if on a barrier of any block of the cluster, whose address is from map_to_rank(). By a
// thread that has only read what others may now overwrite.
SINTER_DEVICE void arrive_remote_if(u32 barrier, u32 wanted) {
  jitter();
  asm volatile(
      "{.reg .pred p; setp.ne.u32 p, %1, 0; @p mbarrier.arrive.shared::cluster.b64 _, [%0];}" ::"r"(
          barrier),
      "r"(wanted)
      : "memory");
}

SINTER_DEVICE bool mbarrier_try_wait(u32 barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// The same, without a pause of the thread.
SINTER_DEVICE bool mbarrier_test_wait(u32 barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

SINTER_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  jitter();
  SpinGuard guard;
  while (!mbarrier_try_wait(barrier, parity)) guard.turn();
}

// For phases that peers of the cluster complete: acquires their writes.
SINTER_DEVICE void mbarrier_wait_cluster(u32 barrier, u32 parity) {
  jitter();
  SpinGuard guard;
  u32 done = 0;
  while (true) {
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; "
        "selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
    if (done) return;
    guard.turn();
  }
}

}  // namespace sinter
