// TMA loads of boxes into this block's shared memory, and bulk copies.
#pragma once
#include "ptx/debug.cuh"
#include "ptx/types.cuh"

namespace sinter {

// Loads the box at (x, y) of `map`, x along the contiguous dimension, into `destination`. Its bytes
// complete on `barrier`. Elements outside the matrix are zero and count as bytes.
SINTER_DEVICE void tma_load(u32 destination, const TensorMap* map, int x, int y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3}], [%4];" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}

// The same of a box of 3 to 5 dimensions, whose coordinates are contiguous dimension first.
SINTER_DEVICE void tma_load(u32 destination, const TensorMap* map, int x, int y, int z,
                            u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3, %4}], [%5];" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}
SINTER_DEVICE void tma_load(u32 destination, const TensorMap* map, int x, int y, int z, int w,
                            u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3, %4, %5}], [%6];" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
      : "memory");
}
SINTER_DEVICE void tma_load(u32 destination, const TensorMap* map, int x, int y, int z, int w,
                            int u, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3, %4, %5, %6}], [%7];" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(u), "r"(barrier)
      : "memory");
}

// The same by multicast: into every block of the cluster whose bit is set in `blocks`, at the same
// offset, completing on the barrier at the same offset. All these barriers are initialised before.
SINTER_DEVICE void tma_load_shared(u32 destination, const TensorMap* map, int x, int y, u32 barrier,
                                   u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(destination),
      "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(blocks)
      : "memory");
}

// The same of a box of 3-D weights, whose coordinates are contiguous dimension first.
struct TapPlace {
  int x, y, z;
};
SINTER_DEVICE void tma_load(u32 destination, const TensorMap* map, TapPlace at, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3, %4}], [%5];" ::"r"(destination),
      "l"(map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(barrier)
      : "memory");
}
SINTER_DEVICE void tma_load_shared(u32 destination, const TensorMap* map, TapPlace at, u32 barrier,
                                   u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(destination),
      "l"(map), "r"(at.x), "r"(at.y), "r"(at.z), "r"(barrier), "h"(blocks)
      : "memory");
}

// The same of weights whose rows are permuted within each 32 (tile/layout.cuh): columns of K from
// `x`, and sets of 32 rows from `set`.
struct PermutedPlace {
  int x, set;
};
SINTER_DEVICE void tma_load(u32 destination, const TensorMap* map, PermutedPlace at, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3, %3, %3, %4}], [%5];" ::"r"(destination),
      "l"(map), "r"(at.x), "r"(0), "r"(at.set), "r"(barrier)
      : "memory");
}
SINTER_DEVICE void tma_load_shared(u32 destination, const TensorMap* map, PermutedPlace at,
                                   u32 barrier, u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %3, %3, %4}], [%5], %6;" ::"r"(destination),
      "l"(map), "r"(at.x), "r"(0), "r"(at.set), "r"(barrier), "h"(blocks)
      : "memory");
}

// Where a load in im2col mode begins: the pixel under the first tap of the first of its rows, and
// the image that has it.
struct WindowStart {
  int x, y, image;
};

// As many rows as the map says, of the channels from `channel` on, under the tap `tap_x`, `tap_y`
// pixels behind the first one. What lies outside an image, behind its channels or behind the last
// image is zero and counts as bytes. The first tap's pixel must lie in the map's box.
SINTER_DEVICE void tma_load_window(u32 destination, const TensorMap* map, int channel,
                                   WindowStart at, u16 tap_x, u16 tap_y, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(destination),
      "l"(map), "r"(channel), "r"(at.x), "r"(at.y), "r"(at.image), "r"(barrier), "h"(tap_x),
      "h"(tap_y)
      : "memory");
}

SINTER_DEVICE void tma_load_window_shared(u32 destination, const TensorMap* map, int channel,
                                          WindowStart at, u16 tap_x, u16 tap_y, u32 barrier,
                                          u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8}, %9;" ::"r"(destination),
      "l"(map), "r"(channel), "r"(at.x), "r"(at.y), "r"(at.image), "r"(barrier), "h"(tap_x),
      "h"(tap_y), "h"(blocks)
      : "memory");
}

SINTER_DEVICE void tma_prefetch_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Loads sets of columns from `set` on of one matrix, `x` elements of each from K's on. Sets behind
// the matrix's last are zeros, of which nothing is read.
struct SetsPlace {
  int set, matrix;
};
SINTER_DEVICE void tma_load(u32 destination, const TensorMap* map, int x, SetsPlace at,
                            u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2, %3, %3, %4, %5}], [%6];" ::"r"(destination),
      "l"(map), "r"(x), "r"(0), "r"(at.set), "r"(at.matrix), "r"(barrier)
      : "memory");
}
SINTER_DEVICE void tma_load_shared(u32 destination, const TensorMap* map, int x, SetsPlace at,
                                   u32 barrier, u16 blocks) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3, %3, %4, %5}], [%6], %7;" ::"r"(destination),
      "l"(map), "r"(x), "r"(0), "r"(at.set), "r"(at.matrix), "r"(barrier), "h"(blocks)
      : "memory");
}

// Bulk copies of global memory into shared memory, in the async proxy. Before a copy of what
// st.global wrote, the writing threads execute fence_proxy_async_global() and meet at a barrier.

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
