// Barriers, fences and grid dependencies.
#pragma once
#include "ptx/debug.cuh"
#include "ptx/types.cuh"

namespace sinter {

SINTER_DEVICE void named_barrier(u32 id, u32 threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Orders this thread's generic-proxy accesses (st.shared, st.global, stmatrix) against the async proxy (TMA, wgmma).
SINTER_DEVICE void fence_proxy_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

SINTER_DEVICE void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// All threads of all blocks of the cluster; releases and acquires.
SINTER_DEVICE void cluster_barrier() {
  jitter();
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
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

// Programmatic dependent launch. Both are no-ops without the launch attribute.
SINTER_DEVICE void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
SINTER_DEVICE void wait_for_predecessors() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

template <int kRegisters>
SINTER_DEVICE void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
SINTER_DEVICE void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// A number that differs between launches, replays of one graph included, and is the same in all blocks of a launch.
SINTER_DEVICE u32 launch_tag() {
  u64 id;
  asm volatile("mov.u64 %0, %%gridid;" : "=l"(id));
  return static_cast<u32>(id);
}

}  // namespace sinter
