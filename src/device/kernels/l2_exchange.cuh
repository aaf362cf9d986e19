// What the dataflows that hand C over through L2 share: the layout of shared memory, and the ready
// flags of C's tiles in the workspace.
#pragma once
#include "kernels/block.cuh"
#include "kernels/epoch.cuh"

namespace sinter {

template <class Config>
struct L2ExchangeTypes {
  using First = typename Config::First;
  using Second = typename Config::Second;
  static constexpr int kFirstStage = First::kRowsBytes + First::kWeightBytes;
  static constexpr int kSecondStage = Second::kRowsBytes + Second::kWeightBytes;
  static constexpr int kStage = kFirstStage > kSecondStage ? kFirstStage : kSecondStage;
  static constexpr int kParts =
      First::kPartBytes > Second::kPartBytes ? First::kPartBytes : Second::kPartBytes;
  using Layout = SharedLayout<Config, kStage, 0, kParts>;
  using BlockType = Block<Config, Layout>;
};

// One flag for each tile of C and each rank of the group that wrote it.
template <class First>
struct ReadyFlags {
  u32* flags;
  int row_tiles;

  SINTER_DEVICE ReadyFlags(u32* header, int row_tiles)
      : flags(header + kFlags), row_tiles(row_tiles) {}
  SINTER_DEVICE u32* word(int column_tile, int row_tile, int rank) const {
    return flags + (column_tile * row_tiles + row_tile) * First::kSplitK + rank;
  }
  // Called by one thread that knows that all consumers have stored their part of the tile.
  SINTER_DEVICE void raise(int column_tile, int row_tile, int rank, u32 tag) const {
    jitter();
    store_release_gpu(word(column_tile, row_tile, rank), tag);
  }
  // Called by all consumer threads after their stores to C. They meet at a barrier, and one thread
  // releases the stores of all.
  SINTER_DEVICE void publish(int column_tile, int row_tile, int rank, int threads, u32 tag) const {
    fence_proxy_async_global();
    named_barrier(1, threads);
    if (threadIdx.x == 128) raise(column_tile, row_tile, rank, tag);
  }
  // Called by one whole warp. Waits until columns [begin, end) of C are there; TMA may then read
  // them.
  SINTER_DEVICE void wait(int row_tile, int begin, int end, u32 tag) const {
    const int first = begin / First::kBlockN,
              last = ceil_div(end < First::kN ? end : First::kN, First::kBlockN);
    await_all((last - first) * First::kSplitK, tag, [&](int i) {
      return word(first + i / First::kSplitK, row_tile, i % First::kSplitK);
    });
    fence_proxy_async_global();
    __syncwarp();
  }
};

}  // namespace sinter
