// The producer: one warp that keeps the ring full by TMA. Lane 0 issues; the whole warp takes part in gates.
#pragma once
#include "pipeline/ring.cuh"
#include "ptx/tma.cuh"
#include "tile/product.cuh"

namespace sinter {

// Tensor maps of one product. `up` is used when the product has two weight matrices.
struct ProductMaps {
  const TensorMap* rows;
  const TensorMap* weights;
  const TensorMap* up;
};

// Weights of K block `k_block` for the tile whose columns begin at `column`.
// K-major: subtile by subtile, each [warpgroup][matrix][columns] rows; N-major: [warpgroup][matrix][64 columns] subtiles.
template <class Config, class P>
SINTER_DEVICE void load_weights(const ProductMaps& maps, u32 address, u32 full, int k_block, int column) {
  const int k = k_block * Config::kBlockK;
#pragma unroll
  for (int g = 0; g < Config::kWarpgroupsN; ++g) {
#pragma unroll
    for (int w = 0; w < P::kWidth; ++w) {
      const TensorMap* map = w == 0 ? maps.weights : maps.up;
      const int x = column + g * P::kHalf;
      const u32 row = g * P::kWarpN + w * P::kHalf;
      if (Config::kWeightsTransposed) {
#pragma unroll
        for (int s = 0; s < P::kHalf / kSubtile; ++s)
          tma_load(address + (row / kSubtile + s) * Config::kBlockK * kRowBytes, map, x + s * kSubtile, k, full);
      } else {
#pragma unroll
        for (int s = 0; s < P::kSubtiles; ++s)
          tma_load(address + (s * P::kColumns + row) * kRowBytes, map, k + s * kSubtile, x, full);
      }
    }
  }
}

// Rows of K block `k_block` for the tile whose rows begin at `row`.
template <class Config, class P>
SINTER_DEVICE void load_rows(const ProductMaps& maps, u32 address, u32 full, int k_block, int row) {
#pragma unroll
  for (int s = 0; s < P::kSubtiles; ++s)
    tma_load(address + s * Config::kBlockM * kRowBytes, maps.rows, k_block * Config::kBlockK + s * kSubtile, row, full);
}

// Streams one tile's K blocks [begin, end). kRows: stages hold rows, then weights; else weights only.
// With `gated`, the first stages' weights are issued before gate() and their rows after it: weights are constants,
// rows may depend on what gate() waits for. gate() is called by the whole warp.
template <class Config, class P, bool kRows, class RingType, class CursorType, class Gate>
SINTER_DEVICE void produce_tile(const RingType& ring, CursorType& cursor, const ProductMaps& maps, int row, int column,
                                int begin, int end, bool gated, Gate&& gate) {
  constexpr u32 kBytes = (kRows ? P::kRowsBytes : 0) + P::kWeightBytes;
  constexpr u32 kWeightsAt = kRows ? P::kRowsBytes : 0;
  const bool lead = threadIdx.x % 32 == 0;
  int ahead = 0;
  if (gated) {
    ahead = end - begin < Config::kStages ? end - begin : Config::kStages;
    CursorType first = cursor;
    if (lead) {
#pragma unroll 1
      for (int i = 0; i < ahead; ++i, cursor.advance()) {
        mbarrier_wait(ring.empty(cursor.stage), cursor.parity ^ 1);
        mbarrier_arrive_expect(ring.full(cursor.stage), kBytes);
        load_weights<Config, P>(maps, ring.address(cursor.stage) + kWeightsAt, ring.full(cursor.stage), begin + i, column);
      }
    }
    __syncwarp();
    gate();
    __syncwarp();
    if (kRows && lead) {
#pragma unroll 1
      for (int i = 0; i < ahead; ++i, first.advance())
        load_rows<Config, P>(maps, ring.address(first.stage), ring.full(first.stage), begin + i, row);
    }
  }
  if (lead) {
#pragma unroll 1
    for (int k = begin + ahead; k < end; ++k, cursor.advance()) {
      const u32 full = ring.full(cursor.stage), address = ring.address(cursor.stage);
      mbarrier_wait(ring.empty(cursor.stage), cursor.parity ^ 1);
      mbarrier_arrive_expect(full, kBytes);
      load_weights<Config, P>(maps, address + kWeightsAt, full, k, column);
      if (kRows) load_rows<Config, P>(maps, address, full, k, row);
    }
  }
  __syncwarp();
}

}  // namespace sinter
