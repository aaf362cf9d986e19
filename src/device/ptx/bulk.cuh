// Bulk copies of global memory into shared memory, in the async proxy. Before a copy of what
// st.global wrote, the writing threads execute fence_proxy_async_global() and meet at a barrier.
#pragma once
#include "ptx/debug.cuh"

namespace sinter {

// cp.async.bulk of `bytes`, a multiple of 16, from 16-byte aligned global memory. The bytes
// complete on this block's `barrier`.
SINTER_DEVICE void bulk_load(u32 destination, const float* from, u32 bytes, u32 barrier) {
  jitter();
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(destination),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

}  // namespace sinter
