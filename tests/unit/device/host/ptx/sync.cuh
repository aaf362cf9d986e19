#pragma once
#include "ptx/debug.cuh"

namespace sinter {

inline void named_barrier(u32, u32) {
  hardware::Machine& m = hardware::machine;
  if (m.races != nullptr && m.count_bytes) m.races->Barrier(threadIdx.x);
}
inline void fence_proxy_async_shared() {}
inline void fence_proxy_async_global() {}
inline void cluster_arrive() {}
inline void cluster_arrive_relaxed() {}
inline void cluster_wait() {}
inline void launch_dependents() {}
inline void wait_for_predecessors() {}
template <int kRegisters>
inline void registers_decrease() {}
template <int kRegisters>
inline void registers_increase() {}
inline u32 uniform(u32 x) { return x; }
inline u32 warp_max(u32 x) {
  for (u32 lanes = 1; lanes < 32; lanes *= 2) {
    const u32 other = __shfl_xor_sync(0, x, static_cast<int>(lanes));
    x = x > other ? x : other;
  }
  return x;
}
inline u32 cluster_rank() { return static_cast<u32>(hardware::machine.rank); }
inline u32 map_to_rank(u32 address, u32 rank) { return hardware::machine.Map(address, rank); }

}  // namespace sinter
