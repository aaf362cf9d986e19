// Dataflow (b) of a gated chain with a spatial gate: of two neighbouring ranks, one computes a tile
// of the gate and the other the same tile of up. Each computes act(gate) * up for half of the
// tile's rows (dsm_reduce_scatter with FlashFuser's Mul) and hands it to every peer. In the
// sequential form, cluster_exchange.cuh, each block computes both.
#pragma once
#include "kernels/cluster_exchange.cuh"

namespace sinter {

// First is a tile of one of the two matrices. Its kSplitK counts the ranks whose parts are
// combined; none of them share K.
template <class Config>
struct SpatialGateTypes {
  using First = typename Config::First;
  using Second = typename Config::Second;
  using Cluster = ClusterExchangeTypes<Config>;
  using Layout = SharedLayout<Config, Cluster::kStage, Cluster::kExchangeBytes, First::kPartBytes>;
  using BlockType = Block<Config, Layout>;
  static_assert(First::kWidth == 1 && First::kSplitK == 2, "one rank has the gate, one up");
  static_assert(Config::kCluster % 2 == 0, "ranks come in pairs");
};

// The properties of a gated product that the epilogue reads.
template <class P>
struct GatedColumns {
  static constexpr int kN = P::kN, kWidth = 2;
};

template <class Config, class Matrix, class Scaling1, class Scaling2, class BlockType>
SINTER_DEVICE void spatial_gate_consume(const Arguments& args, const BlockType& block, int row,
                                        u32 parts, u32 exchange, u32 exchange_full) {
  using First = typename Config::First;
  using Second = typename Config::Second;
  typename BlockType::CursorType cursor;
  const WarpgroupPlace place = block.place();
  const int c_column = block.rank / 2 * First::kBlockN, e_column = block.rank * Second::kBlockN;
  const auto first = first_epilogue<Config, Scaling1, GatedColumns<First>>(args, row);
  DsmReduceScatter<Config, First, true> gate{
      parts, block.own_barrier(1), block.own_barrier(2), block.rank & ~1, block.rank & 1, true};
  consume_tile<Config, First, true>(block, cursor, 0, First::kKBlocks, place, gate, first,
                                    DsmShuffle<Config, First::kN>{exchange, exchange_full}, 0,
                                    c_column, false);
  dsm_shuffle_wait<Config>(exchange_full);
  const auto multiply = [&](float(&e)[Second::kAccumulators]) {
    accumulate<Config, Second, false>(e, block.ring, cursor, exchange, Second::kKBlocks, place);
  };
  finish_second<Config, Matrix, Scaling2>(args, multiply, place, row, e_column);
}

template <class Config, class Matrix = NoMatrix, class Scaling1 = NoScaling,
          class Scaling2 = NoScaling>
SINTER_DEVICE void spatial_gate(const Arguments& args) {
  using T = SpatialGateTypes<Config>;
  using First = typename T::First;
  using Second = typename T::Second;
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
    mbarrier_init(block.own_barrier(1), 1);
    mbarrier_init(block.own_barrier(2), First::kSplitK);
    mbarrier_arrive_expect(exchange_full, DsmShuffle<Config, First::kN>::kBytes);
  }
  if constexpr (T::Cluster::kExchangeColumns > Second::kK) clear_exchange_tail<Config>(exchange);
  block.ready();
  if (block.is_producer()) {
    become_producer<Config>();
    typename T::BlockType::CursorType cursor;
    const ProductMaps first{args.a, block.rank % 2 == 0 ? args.w1 : args.w_up, nullptr},
        second{nullptr, args.w2, nullptr};
    before_weights<Config>();
    if (threadIdx.x == 32 * kWeightsWarp) {
      produce_weights<Config, First, true>(block.ring, cursor, first,
                                           block.rank / 2 * First::kBlockN, 0, First::kKBlocks);
      produce_weights<Config, Second, false>(block.ring, cursor, second,
                                             block.rank * Second::kBlockN, 0, Second::kKBlocks);
    }
    wait_for_predecessors();
    if (threadIdx.x == 32 * kRowsWarp)
      produce_rows<Config, First>(block.ring, cursor, first, row, 0, First::kKBlocks);
    block.join();
  } else {
    become_consumer<Config>();
    wait_for_predecessors();
    block.join();
    spatial_gate_consume<Config, Matrix, Scaling1, Scaling2>(
        args, block, row, block.base + T::Layout::kParts, exchange, exchange_full);
  }
}

}  // namespace sinter
