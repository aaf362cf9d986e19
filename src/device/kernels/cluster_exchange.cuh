// Dataflow (b), "cluster exchange": a cluster owns one row tile and all of N and L. Each block
// computes its columns of C for the whole of K, hands them to every peer through distributed shared
// memory, then computes its columns of E for the whole of N. No reduction, no waiting across
// clusters; the second product's weights load while C is exchanged.
#pragma once
#include "kernels/tile_ends.cuh"

namespace sinter {

template <class Config>
struct ClusterExchangeTypes {
  using First = typename Config::First;
  using Second = typename Config::Second;
  static constexpr int kFirstStage = First::kRowsBytes + First::kWeightBytes;
  static constexpr int kStage =
      kFirstStage > Second::kWeightBytes ? kFirstStage : Second::kWeightBytes;
  static constexpr int kExchangeColumns = Second::kKBlocks * Config::kBlockK;
  static constexpr int kExchangeBytes =
      round_up(kExchangeColumns * Config::kBlockM * Config::Element::kBytes, 1024);
  using Layout = SharedLayout<Config, kStage, kExchangeBytes, 0>;
  using BlockType = Block<Config, Layout>;
};

// Clears the columns of the exchange buffer behind N. The weights there are zero, and zero times a
// NaN of uncleared memory would be a NaN.
template <class Config>
SINTER_DEVICE void clear_exchange_tail(u32 exchange) {
  using T = ClusterExchangeTypes<Config>;
  using Element = typename Config::Element;
  constexpr int kFirst = T::Second::kK / Element::kVector,
                kChunks = T::kExchangeColumns / Element::kVector - kFirst;
  for (int i = threadIdx.x; i < kChunks * Config::kBlockM; i += blockDim.x)
    store_shared(exchange + swizzled_offset<Element>(Config::kBlockM, i / kChunks,
                                                     (kFirst + i % kChunks) * Element::kVector),
                 Word4{0, 0, 0, 0});
  fence_proxy_async_shared();
}

template <class Config, class Matrix = NoMatrix, class Scaling1 = NoScaling,
          class Scaling2 = NoScaling>
SINTER_DEVICE void cluster_exchange(const Arguments& args) {
  using T = ClusterExchangeTypes<Config>;
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
    mbarrier_arrive_expect(exchange_full, DsmShuffle<Config, First::kN>::kBytes);
  }
  if constexpr (T::kExchangeColumns > Second::kK) clear_exchange_tail<Config>(exchange);
  block.ready();
  const int c_column = block.rank * First::kBlockN, e_column = block.rank * Second::kBlockN;
  typename T::BlockType::CursorType cursor;
  if (block.is_producer()) {
    become_producer<Config>();
    const ProductMaps first{args.a, args.w1, args.w_up}, second{nullptr, args.w2, nullptr};
    before_weights<Config>();
    if (threadIdx.x == 32 * kWeightsWarp) {
      produce_weights<Config, First, true>(block.ring, cursor, first, c_column, 0, First::kKBlocks);
      produce_weights<Config, Second, false>(block.ring, cursor, second, e_column, 0,
                                             Second::kKBlocks);
    }
    wait_for_predecessors();
    if (threadIdx.x == 32 * kRowsWarp)
      produce_rows<Config, First>(block.ring, cursor, first, row, 0, First::kKBlocks);
    block.join();
  } else {
    become_consumer<Config>();
    wait_for_predecessors();
    block.join();
    const WarpgroupPlace place = block.place();
    int no_reduction = 0;
    consume_tile<Config, First, true>(block, cursor, 0, First::kKBlocks, place, no_reduction,
                                      first_epilogue<Config, Scaling1>(args, row),
                                      DsmShuffle<Config, First::kN>{exchange, exchange_full}, 0,
                                      c_column, false);
    dsm_shuffle_wait<Config>(exchange_full);
    const auto multiply = [&](float(&e)[Second::kAccumulators]) {
      accumulate<Config, Second, false>(e, block.ring, cursor, exchange, Second::kKBlocks, place);
    };
    finish_second<Config, Matrix, Scaling2>(args, multiply, place, row, e_column);
  }
}

}  // namespace sinter
