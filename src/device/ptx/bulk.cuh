// Bulk copies of global memory into shared memory. They run in the async proxy: what st.global
// wrote needs fence_proxy_async_global() by the writing threads, and a barrier, before one thread
// issues the copy.
#pragma once
#include "ptx/debug.cuh"

namespace sinter {

// cp.async.bulk of `bytes` (a multiple of 16) from global memory, 16-byte aligned, completing them
// on this block's `barrier`.
SINTER_DEVICE void bulk_load(u32 destination, const float* from, u32 bytes, u32 barrier) {
  jitter();
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(destination),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

}  // namespace sinter
