// Dataflow (d), "grid exchange": one persistent cooperative launch. Groups of blocks compute tiles of C into the workspace,
// where they stay in L2, and flag them; then tiles of E, waiting only for the tiles of C that they read. The second product's
// weights are already in flight during that wait.
#pragma once
#include "kernels/block.cuh"

namespace sinter {

template <class Config>
struct ChainGridTypes {
  using First = typename Config::First;
  using Second = typename Config::Second;
  static constexpr int kFirstStage = First::kRowsBytes + First::kWeightBytes;
  static constexpr int kSecondStage = Second::kRowsBytes + Second::kWeightBytes;
  static constexpr int kStage = kFirstStage > kSecondStage ? kFirstStage : kSecondStage;
  static constexpr int kParts = First::kPartBytes > Second::kPartBytes ? First::kPartBytes : Second::kPartBytes;
  using Layout = SharedLayout<Config, kStage, 0, kParts>;
  using BlockType = Block<Config, Layout>;
};

// The group of kSplitK ranks that this block belongs to, and the walk over tiles: M tiles of one column tile are adjacent,
// so that their weights are read together.
template <class P>
struct TileWalk {
  int group, groups, rank, first, m_tiles;
  SINTER_DEVICE TileWalk(int cluster_rank, int m_tiles)
      : group(blockIdx.x / P::kSplitK), groups(gridDim.x / P::kSplitK), rank(cluster_rank % P::kSplitK),
        first(cluster_rank - cluster_rank % P::kSplitK), m_tiles(m_tiles) {}
  SINTER_DEVICE int tiles() const { return P::kColumnTiles * m_tiles; }
  SINTER_DEVICE int column_tile(int tile) const { return tile / m_tiles; }
  SINTER_DEVICE int m_tile(int tile) const { return tile % m_tiles; }
  SINTER_DEVICE int begin() const { return P::first_block(rank); }
  SINTER_DEVICE int end() const { return P::first_block(rank + 1); }
};

// Ready flags: one word for each tile of C and each rank of the group that wrote it; ready when it holds the launch's tag, so
// that neither an earlier launch nor an aborted one can be mistaken for this one.
template <class First>
struct ReadyFlags {
  u32* flags;
  u32 tag;
  int m_tiles;

  SINTER_DEVICE u32* word(int column_tile, int m_tile, int rank) const {
    return flags + (column_tile * m_tiles + m_tile) * First::kSplitK + rank;
  }
  // By all consumer threads, after their stores to C.
  SINTER_DEVICE void publish(int column_tile, int m_tile, int rank, int threads) const {
    fence_proxy_async();
    fence_gpu();
    named_barrier(1, threads);
    jitter();
    if (threadIdx.x == 128) store_release_gpu(word(column_tile, m_tile, rank), tag);
  }
  // By one whole warp: until columns [begin, end) of C are there; TMA may read them afterwards.
  SINTER_DEVICE void wait(int m_tile, int begin, int end) const {
    const int first = begin / First::kBlockN, last = ceil_div(end < First::kN ? end : First::kN, First::kBlockN);
    for (int i = threadIdx.x % 32; i < (last - first) * First::kSplitK; i += 32) {
      const u32* flag = word(first + i / First::kSplitK, m_tile, i % First::kSplitK);
      SpinGuard guard;
      while (load_acquire_gpu(flag) != tag) guard.turn();
    }
    fence_proxy_async();
    __syncwarp();
  }
};

template <class Config, class BlockType>
SINTER_DEVICE void chain_grid_produce(const Arguments& args, const BlockType& block, int m_tiles, u32 tag) {
  using First = typename Config::First;
  using Second = typename Config::Second;
  typename BlockType::CursorType cursor;
  bool started = false;
  const TileWalk<First> one(block.rank, m_tiles);
  const ProductMaps first{args.rows, args.weights, args.weights_up}, second{args.exchange_rows, args.weights2, nullptr};
  for (int tile = one.group; tile < one.tiles(); tile += one.groups) {
    produce_tile<Config, First, true>(block.ring, cursor, first, one.m_tile(tile) * Config::kBlockM,
                                      one.column_tile(tile) * First::kBlockN, one.begin(), one.end(), !started,
                                      [] { wait_for_predecessors(); });
    started = true;
  }
  if (!started) wait_for_predecessors();
  const TileWalk<Second> two(block.rank, m_tiles);
  const ReadyFlags<First> ready{args.flags, tag, m_tiles};
  int waited = -1;
  for (int tile = two.group; tile < two.tiles(); tile += two.groups) {
    const int m_tile = two.m_tile(tile);
    produce_tile<Config, Second, true>(block.ring, cursor, second, m_tile * Config::kBlockM,
                                       two.column_tile(tile) * Second::kBlockN, two.begin(), two.end(), waited != m_tile,
                                       [&] { ready.wait(m_tile, two.begin() * Config::kBlockK, two.end() * Config::kBlockK); });
    waited = m_tile;
  }
}

template <class Config, class BlockType>
SINTER_DEVICE void chain_grid_consume(const Arguments& args, const BlockType& block, u32 parts, int m_tiles, u32 tag) {
  using First = typename Config::First;
  using Second = typename Config::Second;
  constexpr int kThreads = 128 * BlockType::kConsumers;
  typename BlockType::CursorType cursor;
  const WarpgroupPlace place = block.place();
  const ReadyFlags<First> ready{args.flags, tag, m_tiles};

  const TileWalk<First> one(block.rank, m_tiles);
  ReduceScatter<Config, First> reduce1{parts, block.own_barrier(0), block.own_barrier(1), one.first, one.rank, 0, true};
  const Epilogue<First, typename Config::Element, typename Config::Activation, Config::kBias1> epilogue1{args.bias, args.bias_up};
  const GlobalWriter<First::kN, First::kN % 8 == 0> c{args.exchange, First::kN, args.m};
  for (int tile = one.group; tile < one.tiles(); tile += one.groups) {
    const int m_tile = one.m_tile(tile), column_tile = one.column_tile(tile);
    consume_tile<Config, First, true>(block, cursor, 0, one.end() - one.begin(), place, reduce1, epilogue1, c,
                                      m_tile * Config::kBlockM, column_tile * First::kBlockN);
    ready.publish(column_tile, m_tile, one.rank, kThreads);
  }

  const TileWalk<Second> two(block.rank, m_tiles);
  ReduceScatter<Config, Second> reduce2{parts, block.own_barrier(2), block.own_barrier(3), two.first, two.rank, 0, false};
  if constexpr (Second::kSplitK > 1) reduce2.arrive_all(block.own_barrier(3));  // the parts are free: the first product is done
  const Epilogue<Second, typename Config::Element, Identity, Config::kBias2> epilogue2{args.bias2, nullptr};
  const GlobalWriter<Second::kN, Config::kOutAligned> out{args.out, args.out_stride, args.m};
  for (int tile = two.group; tile < two.tiles(); tile += two.groups)
    consume_tile<Config, Second, true>(block, cursor, 0, two.end() - two.begin(), place, reduce2, epilogue2, out,
                                       two.m_tile(tile) * Config::kBlockM, two.column_tile(tile) * Second::kBlockN);
}

template <class Config>
SINTER_DEVICE void chain_grid(const Arguments& args) {
  using T = ChainGridTypes<Config>;
  typename T::BlockType block;
  if (threadIdx.x == 0) {
    block.ring.init(T::BlockType::kConsumers);
    for (int i = 0; i < 4; ++i) mbarrier_init(block.own_barrier(i), i < 2 ? T::First::kSplitK : T::Second::kSplitK);
  }
  launch_dependents();
  block.ready();
  const int m_tiles = ceil_div(args.m, Config::kBlockM);
  const u32 tag = launch_tag();
  if (block.is_producer()) {
    become_producer<Config>();
    if (threadIdx.x < 32)
      chain_grid_produce<Config>(args, block, m_tiles, tag);
    else
      wait_for_predecessors();
  } else {
    become_consumer<Config>();
    wait_for_predecessors();
    chain_grid_consume<Config>(args, block, block.base + T::Layout::kParts, m_tiles, tag);
  }
  block.leave();
}

}  // namespace sinter
