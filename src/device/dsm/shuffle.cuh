// dsm_shuffle: every block of a cluster ends up with the whole row slab of C. A block writes its columns of C, rounded once,
// into its own exchange buffer and into that of every peer; the buffer has the layout that wgmma reads (K-major, swizzled).
// After FlashFuser (arXiv 2512.12949) section IV-A; all-to-all instead of a ring: the same bytes, one hop of latency.
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "tile/layout.cuh"

namespace sinter {

// Writes groups of columns into the exchange buffer of all kCluster blocks.
template <class Config, int kColumns>
struct ExchangeWriter {
  u32 exchange;  // shared address of this block's buffer

  SINTER_DEVICE void group(int row, int column, Word4 v) const {
    if (column >= kColumns) return;
    const u32 at = exchange + swizzled_offset(Config::kBlockM, row, column);
#pragma unroll
    for (int peer = 0; peer < Config::kCluster; ++peer) store_cluster(map_to_rank(at, peer), v);
  }
  SINTER_DEVICE void pair(int row, int column, u32 v) const {
    if (column >= kColumns) return;
    const u32 at = exchange + swizzled_offset(Config::kBlockM, row, column);
#pragma unroll
    for (int peer = 0; peer < Config::kCluster; ++peer) store_cluster(map_to_rank(at, peer), v);
  }
};

// Arrivals on a block's `full` barrier: one from each warp of the cluster that holds rows of the tile.
template <class Config>
SINTER_SHARED_CONSTEXPR int exchange_arrivals() {
  return Config::kCluster * Config::kWarpgroupsN * ceil_div(Config::kBlockM, 16);
}

// By every consumer warp once its stores are issued: tells each peer.
template <class Config>
SINTER_DEVICE void exchange_publish(u32 full, WarpgroupPlace place) {
  fence_proxy_async();
  __syncwarp();
  const bool has_rows = place.m * kWarpgroupRows + place.thread / 32 * 16 < Config::kBlockM;
  if (has_rows && place.thread % 32 < Config::kCluster) mbarrier_arrive_remote(map_to_rank(full, place.thread % 32));
}

// Until the whole slab has arrived and may be read by wgmma.
SINTER_DEVICE void exchange_wait(u32 full) {
  mbarrier_wait_cluster(full, 0);
  fence_proxy_async();
}

}  // namespace sinter
