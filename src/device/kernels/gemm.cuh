// Dataflow "product": one product (or gate-up pair) a launch. A group of kSplitK blocks, a cluster,
// takes one tile.
#pragma once
#include "kernels/block.cuh"

namespace sinter {

template <class Config>
struct GemmTypes {
  using P = typename Config::First;
  using Layout = SharedLayout<Config, P::kRowsBytes + P::kWeightBytes, 0, P::kPartBytes>;
  using BlockType = Block<Config, Layout>;
};

template <class Config>
SINTER_DEVICE void gemm(const Arguments& args) {
  using T = GemmTypes<Config>;
  using P = typename T::P;
  const int m_tiles = gridDim.x / (P::kColumnTiles * P::kSplitK);
  const int tile = blockIdx.x / P::kSplitK;
  const int column = tile / m_tiles * P::kBlockN, row = tile % m_tiles * Config::kBlockM;
  launch_dependents();
  if (row >= args.m) {  // the same for all blocks of the cluster
    wait_for_predecessors();
    return;
  }
  typename T::BlockType block;
  if (threadIdx.x == 0) {
    block.ring.init(T::BlockType::kConsumers);
    mbarrier_init(block.own_barrier(0), 1);
    mbarrier_init(block.own_barrier(1), P::kSplitK);
  }
  block.ready();
  const int begin = P::first_block(block.rank), end = P::first_block(block.rank + 1);
  typename T::BlockType::CursorType cursor;
  if (block.is_producer()) {
    become_producer<Config>();
    const ProductMaps maps{args.rows, args.weights, args.weights_up};
    before_weights<Config>();
    if (threadIdx.x == 32 * kWeightsWarp)
      produce_weights<Config, P, true>(block.ring, cursor, maps, column, begin, end);
    wait_for_predecessors();
    if (threadIdx.x == 32 * kRowsWarp)
      produce_rows<Config, P>(block.ring, cursor, maps, row, begin, end);
    block.join();
  } else {
    become_consumer<Config>();
    wait_for_predecessors();
    block.join();
    ReduceScatter<Config, P> reduce{block.base + T::Layout::kParts,
                                    block.own_barrier(0),
                                    block.own_barrier(1),
                                    0,
                                    block.rank,
                                    true};
    const Epilogue<P, typename Config::Element, typename Config::Activation, Config::kBias1>
        epilogue{args.bias, args.bias_up};
    const GlobalWriter<P::kN, Config::kOutAligned> writer{args.out, args.out_stride, args.m};
    consume_tile<Config, P, true>(block, cursor, 0, end - begin, block.place(), reduce, epilogue,
                                  writer, row, column, false);
  }
}

}  // namespace sinter
