// Dataflow (d), "grid exchange": one persistent cooperative launch. Groups of blocks compute tiles
// of C into the workspace, where they stay in L2, and flag them; then tiles of E, waiting only for
// the tiles of C that they read. The second product's weights are already in flight during that
// wait.
#pragma once
#include "kernels/block.cuh"
#include "kernels/epoch.cuh"
#include "kernels/tile_ends.cuh"

namespace sinter {

template <class Config>
struct GridExchangeTypes {
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
  // Called by all consumer threads after their stores to C. They meet at a barrier, and one thread
  // releases the stores of all.
  SINTER_DEVICE void publish(int column_tile, int row_tile, int rank, int threads, u32 tag) const {
    fence_proxy_async_global();
    named_barrier(1, threads);
    if (threadIdx.x == 128) {
      jitter();
      store_release_gpu(word(column_tile, row_tile, rank), tag);
    }
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

// The group of kSplitK ranks that this block belongs to, and the walk over tiles: row tiles of one
// column tile are adjacent, so that their weights are read together.
template <class P>
struct TileWalk {
  int group, groups, rank, first, row_tiles;
  SINTER_DEVICE TileWalk(int cluster_rank, int row_tiles)
      : group(blockIdx.x / P::kSplitK),
        groups(gridDim.x / P::kSplitK),
        rank(cluster_rank % P::kSplitK),
        first(cluster_rank - cluster_rank % P::kSplitK),
        row_tiles(row_tiles) {}
  SINTER_DEVICE int tiles() const { return P::kColumnTiles * row_tiles; }
  SINTER_DEVICE int column_tile(int tile) const { return tile / row_tiles; }
  SINTER_DEVICE int row_tile(int tile) const { return tile % row_tiles; }
  SINTER_DEVICE int begin() const { return P::first_block(rank); }
  SINTER_DEVICE int end() const { return P::first_block(rank + 1); }
};

// The weights warp's lane 0: both products' weights, as far ahead as the ring goes.
template <class Config, class BlockType>
SINTER_DEVICE void grid_exchange_weights(const Arguments& args, const BlockType& block,
                                         int row_tiles) {
  using First = typename Config::First;
  using Second = typename Config::Second;
  typename BlockType::CursorType cursor;
  const TileWalk<First> one(block.rank, row_tiles);
  for (int tile = one.group; tile < one.tiles(); tile += one.groups)
    produce_weights<Config, First, true>(
        block.ring, cursor, ProductMaps{nullptr, args.w1, args.w_up},
        one.column_tile(tile) * First::kBlockN, one.begin(), one.end());
  const TileWalk<Second> two(block.rank, row_tiles);
  for (int tile = two.group; tile < two.tiles(); tile += two.groups)
    produce_weights<Config, Second, true>(
        block.ring, cursor, ProductMaps{nullptr, args.w2, nullptr},
        two.column_tile(tile) * Second::kBlockN, two.begin(), two.end());
}

// The rows warp: A, then the tiles of C that the second product reads, each once it is ready.
template <class Config, class BlockType>
SINTER_DEVICE void grid_exchange_rows(const Arguments& args, const BlockType& block,
                                      int row_tiles) {
  using First = typename Config::First;
  using Second = typename Config::Second;
  typename BlockType::CursorType cursor;
  const bool lead = threadIdx.x % 32 == 0;
  const TileWalk<First> one(block.rank, row_tiles);
  if (lead)
    for (int tile = one.group; tile < one.tiles(); tile += one.groups)
      produce_rows<Config, First>(block.ring, cursor, ProductMaps{args.a, nullptr, nullptr},
                                  one.row_tile(tile) * Config::kBlockM, one.begin(), one.end());
  __syncwarp();
  const u32 tag = launch_tag(block.tag_at(), block.own_barrier(kTagReady));
  const TileWalk<Second> two(block.rank, row_tiles);
  const ReadyFlags<First> ready(args.workspace, row_tiles);
  int waited = -1;
  for (int tile = two.group; tile < two.tiles(); tile += two.groups) {
    const int row_tile = two.row_tile(tile);
    if (waited != row_tile)
      ready.wait(row_tile, two.begin() * Config::kBlockK, two.end() * Config::kBlockK, tag);
    waited = row_tile;
    if (lead)
      produce_rows<Config, Second>(block.ring, cursor, ProductMaps{args.c_map, nullptr, nullptr},
                                   row_tile * Config::kBlockM, two.begin(), two.end());
    __syncwarp();
  }
}

template <class Config, class Matrix, class Scaling1, class Scaling2, class BlockType>
SINTER_DEVICE void grid_exchange_consume(const Arguments& args, const BlockType& block, u32 parts,
                                         int row_tiles) {
  using First = typename Config::First;
  using Second = typename Config::Second;
  constexpr int kThreads = 128 * BlockType::kConsumers;
  typename BlockType::CursorType cursor;
  const WarpgroupPlace place = block.place();
  const ReadyFlags<First> ready(args.workspace, row_tiles);

  const TileWalk<First> one(block.rank, row_tiles);
  DsmReduceScatter<Config, First> reduce1{
      parts, block.own_barrier(0), block.own_barrier(1), one.first, one.rank, true};
  const auto epilogue1 = first_epilogue<Config, Scaling1>(args);
  const auto c = c_writer<Config>(args);
  for (int tile = one.group; tile < one.tiles(); tile += one.groups) {
    const int row_tile = one.row_tile(tile), column_tile = one.column_tile(tile);
    consume_tile<Config, First, true>(
        block, cursor, 0, one.end() - one.begin(), place, reduce1, epilogue1, c,
        row_tile * Config::kBlockM, column_tile * First::kBlockN, tile + one.groups < one.tiles());
    ready.publish(column_tile, row_tile, one.rank, kThreads,
                  launch_tag(block.tag_at(), block.own_barrier(kTagReady)));
  }

  const TileWalk<Second> two(block.rank, row_tiles);
  DsmReduceScatter<Config, Second> reduce2{
      parts, block.own_barrier(2), block.own_barrier(3), two.first, two.rank, First::kSplitK == 1};
  // Peers may still read their parts of the first product, so each releases them. A group without a
  // tile releases nothing: its blocks would not wait for the releases and might have exited.
  if constexpr (Second::kSplitK > 1 && First::kSplitK > 1)
    if (two.group < two.tiles()) reduce2.release();
  const auto epilogue2 = second_epilogue<Config, Scaling2>(args);
  const auto out = output_writer<Config>(args);
  const Matrix matrix = Matrix::of(args.residual, args.residual_stride, args.m);
  for (int tile = two.group; tile < two.tiles(); tile += two.groups)
    consume_tile<Config, Second, true>(block, cursor, 0, two.end() - two.begin(), place, reduce2,
                                       epilogue2, out, two.row_tile(tile) * Config::kBlockM,
                                       two.column_tile(tile) * Second::kBlockN,
                                       tile + two.groups < two.tiles(), matrix);
}

template <class Config, class Matrix = NoMatrix, class Scaling1 = NoScaling,
          class Scaling2 = NoScaling>
SINTER_DEVICE void grid_exchange(const Arguments& args) {
  using T = GridExchangeTypes<Config>;
  typename T::BlockType block;
  if (threadIdx.x == 0) {
    block.ring.init(T::BlockType::kConsumers);
    mbarrier_init(block.own_barrier(0), 1);
    mbarrier_init(block.own_barrier(1), T::First::kSplitK);
    mbarrier_init(block.own_barrier(2), 1);
    mbarrier_init(block.own_barrier(3), T::Second::kSplitK);
    mbarrier_init(block.own_barrier(kTagReady), 1);
  }
  launch_dependents();
  block.ready();
  const int row_tiles = ceil_div(args.m, Config::kBlockM);
  if (block.is_producer()) {
    become_producer<Config>();
    before_weights<Config>();
    if (threadIdx.x == 32 * kWeightsWarp) grid_exchange_weights<Config>(args, block, row_tiles);
    wait_for_predecessors();
    if (threadIdx.x / 32 == kRowsWarp) grid_exchange_rows<Config>(args, block, row_tiles);
    if (threadIdx.x / 32 == kEpochWarp)
      keep_epoch(args.workspace, block.tag_at(), block.own_barrier(kTagReady));
    block.join();
  } else {
    become_consumer<Config>();
    wait_for_predecessors();
    block.join();
    grid_exchange_consume<Config, Matrix, Scaling1, Scaling2>(
        args, block, block.base + T::Layout::kParts, row_tiles);
  }
}

}  // namespace sinter
