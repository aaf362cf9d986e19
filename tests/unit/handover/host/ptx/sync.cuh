#pragma once
#include "ptx/debug.cuh"

namespace sinter {

inline void named_barrier(u32 id, u32 threads) { simulator->Meet(id, threads); }
inline void fence_proxy_async_shared() { simulator->FenceProxy(); }
inline void fence_proxy_async_global() { simulator->FenceProxy(); }
inline void cluster_arrive() { simulator->ClusterArrive(); }
inline void cluster_wait() { simulator->ClusterWait(); }
inline u32 map_to_rank(u32 address, u32 rank) { return simulator->Map(address, rank); }

}  // namespace sinter
