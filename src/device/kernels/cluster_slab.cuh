// Dataflow (b) where shared memory cannot hold all of C. The slab takes the first columns, which
// blocks hand to every peer through distributed shared memory as in cluster_exchange.cuh. Columns
// behind the slab go to L2, and the second product loads them through the ring as dataflow (d)
// does. Blocks wait for peers of their cluster only.
#pragma once
#include "kernels/cluster_exchange.cuh"

namespace sinter {

constexpr int kRestIsThere = 1;  // own barrier: the columns of C behind the slab are in L2

template <class Config>
struct ClusterSlabTypes {
  using First = typename Config::First;
  using Second = typename Config::Second;
  static constexpr int kSlab = Config::kSlabColumns;
  static constexpr int kKept = kSlab / Config::kBlockK;  // K blocks of the second product
  static constexpr int kFirstStage = First::kRowsBytes + First::kWeightBytes;
  static constexpr int kSecondStage = Second::kRowsBytes + Second::kWeightBytes;
  static constexpr int kStage = kFirstStage > kSecondStage ? kFirstStage : kSecondStage;
  static constexpr int kExchangeBytes = kSlab * Config::kBlockM * Config::Element::kBytes;
  // Ranks with columns behind the slab.
  static constexpr int kTellers = First::kColumnTiles - kSlab / First::kBlockN;
  using Layout = SharedLayout<Config, kStage, kExchangeBytes, 0>;
  using BlockType = Block<Config, Layout>;
  static_assert(Config::kCluster > 1, "a slab has peers");
  static_assert(kSlab % Config::kBlockK == 0, "the slab is whole stages of the second product");
  static_assert(kKept > 0 && kSlab < First::kN, "C lies on both sides of the slab's end");
};

// Writes columns of C into the slabs of the cluster, and those behind the slab into the workspace.
// Rows are counted from the tile's first.
template <class Config>
struct SlabWriter {
  using Element = typename Config::Element;
  static constexpr int kSlab = Config::kSlabColumns;
  DsmShuffle<Config, kSlab> slab;
  CWriter<Config> rest;

  SINTER_DEVICE void group(int row, int column, Word4 v) const {
    if (column < kSlab)
      slab.group(row, column, v);
    else
      rest.group(row, column, v);
  }
  SINTER_DEVICE void pair(int row, int column, u32 v) const {
    if (column < kSlab)
      slab.pair(row, column, v);
    else
      rest.pair(row, column, v);
  }
};

// Called by all consumer threads of a block with columns behind the slab, after their stores. Tells
// every block of the cluster that these columns are in L2.
template <class Config, class BlockType>
SINTER_DEVICE void tell_of_rest(const BlockType& block) {
  fence_proxy_async_global();
  named_barrier(1, 128 * BlockType::kConsumers);
  const int peer = static_cast<int>(threadIdx.x) - 128;
  if (peer < Config::kCluster)
    mbarrier_arrive_remote(map_to_rank(block.own_barrier(kRestIsThere), peer));
}

// One thread of the weights warp loads both products' weights, and the rows of C that lie in L2. A
// thread that loaded those rows only would skip the stages whose rows come from the slab. It could
// fall two phases behind, and a parity cannot tell such phases apart.
template <class Config, class BlockType>
SINTER_DEVICE void cluster_slab_weights(const Arguments& args, const BlockType& block, int row) {
  using T = ClusterSlabTypes<Config>;
  using First = typename T::First;
  using Second = typename T::Second;
  typename BlockType::CursorType cursor;
  const ProductMaps first{nullptr, args.w1, args.w_up}, second{args.c_map, args.w2, nullptr};
  const int e_column = block.rank * Second::kBlockN;
  produce_weights<Config, First, true>(block.ring, cursor, first, block.rank * First::kBlockN, 0,
                                       First::kKBlocks);
  produce_weights<Config, Second, false>(block.ring, cursor, second, e_column, 0, T::kKept);
#pragma unroll 1
  for (int k = T::kKept; k < Second::kKBlocks; ++k) {
    typename BlockType::CursorType of_rows = cursor;
    produce_weights<Config, Second, true>(block.ring, cursor, second, e_column, k, k + 1);
    if (k == T::kKept) {
      mbarrier_wait_cluster(block.own_barrier(kRestIsThere), 0);
      fence_proxy_async_global();
    }
    produce_rows<Config, Second>(block.ring, of_rows, second, row, k, k + 1);
  }
}

template <class Config, class Matrix, class Scaling1, class Scaling2, class BlockType>
SINTER_DEVICE void cluster_slab_consume(const Arguments& args, const BlockType& block, int row,
                                        u32 exchange, u32 exchange_full) {
  using T = ClusterSlabTypes<Config>;
  using First = typename T::First;
  using Second = typename T::Second;
  typename BlockType::CursorType cursor;
  const WarpgroupPlace place = block.place();
  const int c_column = block.rank * First::kBlockN, e_column = block.rank * Second::kBlockN;
  int no_reduction = 0;
  auto* const rest = static_cast<typename Config::Element::Stored*>(args.c);
  const SlabWriter<Config> c{
      {exchange, exchange_full},
      {rest + static_cast<long long>(row) * First::kN, First::kN, args.m - row}};
  consume_tile<Config, First, true>(block, cursor, 0, First::kKBlocks, place, no_reduction,
                                    first_epilogue<Config, Scaling1>(args, row), c, 0, c_column,
                                    false);
  if (c_column < First::kN && c_column + First::kBlockN > T::kSlab) tell_of_rest<Config>(block);
  dsm_shuffle_wait<Config>(exchange_full);
  const auto multiply = [&](float(&e)[Second::kAccumulators]) {
    accumulate<Config, Second, false>(e, block.ring, cursor, exchange, T::kKept, place);
    accumulate<Config, Second, true, true>(e, block.ring, cursor, 0, Second::kKBlocks - T::kKept,
                                           place);
  };
  finish_second<Config, Matrix, Scaling2>(args, multiply, place, row, e_column);
}

template <class Config, class Matrix = NoMatrix, class Scaling1 = NoScaling,
          class Scaling2 = NoScaling>
SINTER_DEVICE void cluster_slab(const Arguments& args) {
  using T = ClusterSlabTypes<Config>;
  using First = typename T::First;
  const int row = blockIdx.x / Config::kCluster * Config::kBlockM;
  launch_dependents();
  if (row >= args.m) {  // the same for all blocks of the cluster
    wait_for_predecessors();
    return;
  }
  typename T::BlockType block;
  const u32 exchange = block.base + T::Layout::kExchange, exchange_full = block.own_barrier(0);
  if (threadIdx.x == 0) {
    block.ring.init(T::BlockType::kConsumers);
    mbarrier_init(exchange_full, 1);
    mbarrier_init(block.own_barrier(kRestIsThere), T::kTellers);
    mbarrier_arrive_expect(exchange_full, DsmShuffle<Config, T::kSlab>::kBytes);
  }
  block.ready();
  if (block.is_producer()) {
    become_producer<Config>();
    before_weights<Config>();
    if (threadIdx.x == 32 * kWeightsWarp) cluster_slab_weights<Config>(args, block, row);
    wait_for_predecessors();
    if (threadIdx.x == 32 * kRowsWarp) {
      typename T::BlockType::CursorType cursor;
      produce_rows<Config, First>(block.ring, cursor, ProductMaps{args.a, nullptr, nullptr}, row, 0,
                                  First::kKBlocks);
    }
    block.join();
  } else {
    become_consumer<Config>();
    wait_for_predecessors();
    block.join();
    cluster_slab_consume<Config, Matrix, Scaling1, Scaling2>(args, block, row, exchange,
                                                             exchange_full);
  }
}

}  // namespace sinter
