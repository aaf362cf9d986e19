// TMA loads of 2-D boxes into this block's shared memory.
#pragma once
#include "ptx/types.cuh"

namespace sinter {

// Box at (x, y) of `map` (x along the contiguous dimension) into `destination`; completes bytes on
// `barrier`. Out-of-range parts are zero and count as bytes.
SINTER_DEVICE void tma_load(u32 destination, const TensorMap* map, int x, int y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

// The same into every block of the cluster whose bit is set in `blocks`: at the same offset, on the
// barrier at the same offset. The barriers of all of them must be initialised.
SINTER_DEVICE void tma_load_shared(u32 destination, const TensorMap* map, int x, int y, u32 barrier,
                                   u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(blocks)
      : "memory");
}

SINTER_DEVICE void tma_prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

}  // namespace sinter
