// Barriers, fences and grid dependencies.
#pragma once
#include "ptx/debug.cuh"
#include "ptx/types.cuh"

namespace sinter {

SINTER_DEVICE void named_barrier(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Orders this thread's accesses by ordinary instructions (st.shared, st.global) to one state space
// before later accesses by TMA and wgmma. The form for all state spaces would wait for every
// pending access of this thread to global memory.
SINTER_DEVICE void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
SINTER_DEVICE void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// The cluster barrier in two halves: every thread of every block arrives, and waits before it
// arrives again. It may work in between. The release form publishes this thread's writes to the
// cluster, the relaxed form does not.
SINTER_DEVICE void cluster_arrive() {
  jitter();
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
SINTER_DEVICE void cluster_arrive_relaxed() {
  jitter();
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}
SINTER_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }

// `x`, which is the same in all lanes of a warp, as a value that the compiler knows to be uniform.
// Descriptors computed from it stay in uniform registers. Else each wgmma would wait until its
// descriptors have been moved there.
SINTER_DEVICE u32 uniform(u32 x) {
  u32 r;
  asm("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(x));
  return r;
}

// The largest of the lanes of a warp. All lanes call.
SINTER_DEVICE u32 warp_max(u32 x) {
  u32 r;
  asm("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(x));
  return r;
}

SINTER_DEVICE u32 cluster_rank() {
  u32 r;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
  return r;
}

// The address in block `rank` of the cluster that corresponds to `address` here.
SINTER_DEVICE u32 map_to_rank(u32 address, u32 rank) {
  u32 r;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
  return r;
}

// Programmatic dependent launch. Both are no-ops without the launch attribute, which kernels for
// older chips never get.
#if __CUDA_ARCH__ >= 900
SINTER_DEVICE void launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
SINTER_DEVICE void wait_for_predecessors() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
#else
SINTER_DEVICE void launch_dependents() {}
SINTER_DEVICE void wait_for_predecessors() {}
#endif

// For a warp that polls beside others which work.
SINTER_DEVICE void nap() { asm volatile("nanosleep.u32 200;"); }

template <int kRegisters>
SINTER_DEVICE void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
SINTER_DEVICE void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace sinter
