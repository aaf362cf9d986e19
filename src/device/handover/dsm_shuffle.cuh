// dsm_shuffle: every block of a cluster gets the whole row slab of C. A block writes its columns of
// C, rounded once, into its own exchange buffer and into that of every peer. The buffer has the
// layout that wgmma reads (K-major, swizzled). After FlashFuser (arXiv 2512.12949) section IV-A,
// but all-to-all instead of a ring: the same bytes, one hop of latency.
#pragma once
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/sync.cuh"
#include "tile/layout.cuh"

namespace sinter {

// Writes groups of columns into the exchange buffers of all kCluster blocks. The bytes complete on
// each block's `full`.
template <class Config, int kColumns>
struct DsmShuffle {
  using Element = typename Config::Element;
  u32 exchange;  // shared address of this block's buffer
  u32 full;      // barrier: one arrival of its own block, and kBytes of remote stores
  static constexpr u32 kBytes =
      Config::kCluster > 1 ? Config::kBlockM* kColumns* Element::kBytes : 0;

  SINTER_DEVICE void group(int row, int column, Word4 v) const { to_all(row, column, v); }
  SINTER_DEVICE void pair(int row, int column, u32 v) const { to_all(row, column, v); }

 private:
  template <class Value>
  SINTER_DEVICE void to_all(int row, int column, Value v) const {
    if (column >= kColumns) return;
    const u32 at = exchange + swizzled_offset<Element>(Config::kBlockM, row, column);
    if constexpr (Config::kCluster == 1) {  // st.async is illegal outside a cluster launch
      store_shared(at, v);
      return;
    }
#pragma unroll
    for (int peer = 0; peer < Config::kCluster; ++peer)
      store_async(map_to_rank(at, peer), map_to_rank(full, peer), v);
  }
};

// Waits until the whole slab has arrived and wgmma may read it. All consumer threads.
template <class Config>
SINTER_DEVICE void dsm_shuffle_wait(u32 full) {
  if constexpr (Config::kCluster == 1) {
    fence_proxy_async_shared();
    named_barrier(1, 128 * Config::kWarpgroupsM * Config::kWarpgroupsN);
  } else {
    mbarrier_wait(full, 0);
    fence_proxy_async_shared();
  }
}

}  // namespace sinter
