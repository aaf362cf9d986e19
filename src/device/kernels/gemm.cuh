// Dataflow "product": one product (or gate-up pair) a launch. Persistent: clusters walk units, and
// the producers run ahead into the next one, so that only the first tile of a block waits for its
// first bytes and only the end of the last one shows. A unit is a tile, whose K kSplitK ranks
// share, or two neighbouring tiles, where rank r of one and rank r of the other load weights or
// rows for both.
#pragma once
#include "kernels/block.cuh"

namespace sinter {

constexpr int kGemmProducerRegisters = 40;

template <class Config>
struct GemmTypes {
  using P = typename Config::First;
  using Layout = SharedLayout<Config, P::kRowsBytes + P::kWeightBytes, 0, P::kPartBytes>;
  using BlockType = Block<Config, Layout>;
};

// The units of a launch in the order in which clusters take them, over the rows that exist. Bands
// of kBand units along M, M fastest: what runs at one time is about as high as it is wide, and its
// rows and weights are read from L2.
template <class Config>
struct UnitWalk {
  using P = typename Config::First;
  static constexpr int kBand = 16;
  static constexpr int kColumnUnits = ceil_div(P::kColumnTiles, Config::kRowsShare);
  int first, step, m_units;
  int pair;    // which of a unit's tiles
  int k_rank;  // among the ranks that share a tile's K

  SINTER_DEVICE UnitWalk(int cluster_rank, int m)
      : first(blockIdx.x / Config::kCluster),
        step(gridDim.x / Config::kCluster),
        m_units(ceil_div(m, Config::kBlockM * Config::kWeightsShare)),
        pair(cluster_rank / P::kSplitK),
        k_rank(cluster_rank % P::kSplitK) {}
  SINTER_DEVICE int units() const { return m_units * kColumnUnits; }
  // Units that this cluster takes.
  SINTER_DEVICE int own() const { return first < units() ? ceil_div(units() - first, step) : 0; }
  // First row and first column of this block's tile of `unit`; either may lie outside the matrix.
  SINTER_DEVICE int row(int unit) const {
    const int tile = band(unit) * kBand + within(unit) % height(unit);
    return (tile * Config::kWeightsShare + (Config::kWeightsShare > 1 ? pair : 0)) *
           Config::kBlockM;
  }
  SINTER_DEVICE int column(int unit) const {
    const int tile = within(unit) / height(unit);
    return (tile * Config::kRowsShare + (Config::kRowsShare > 1 ? pair : 0)) * P::kBlockN;
  }
  // K blocks of this rank.
  SINTER_DEVICE int begin() const { return P::first_block(k_rank); }
  SINTER_DEVICE int end() const { return P::first_block(k_rank + 1); }
  SINTER_DEVICE PairLoads loads() const {
    return {pair, static_cast<u16>((1 | 1 << P::kSplitK) << k_rank)};
  }

 private:
  static SINTER_DEVICE int band(int unit) { return unit / (kBand * kColumnUnits); }
  static SINTER_DEVICE int within(int unit) { return unit % (kBand * kColumnUnits); }
  SINTER_DEVICE int height(int unit) const {
    const int left = m_units - band(unit) * kBand;
    return left < kBand ? left : kBand;
  }
};

template <class Config, class BlockType>
SINTER_DEVICE void gemm_weights(const Arguments& args, const BlockType& block,
                                const UnitWalk<Config>& walk) {
  typename BlockType::CursorType cursor;
  const ProductMaps maps{nullptr, args.weights, args.weights_up};
  for (int unit = walk.first; unit < walk.units(); unit += walk.step)
    produce_weights<Config, typename Config::First, true>(
        block.ring, cursor, maps, walk.column(unit), walk.begin(), walk.end(), walk.loads());
}

template <class Config, class BlockType>
SINTER_DEVICE void gemm_rows(const Arguments& args, const BlockType& block,
                             const UnitWalk<Config>& walk) {
  typename BlockType::CursorType cursor;
  const ProductMaps maps{args.rows, nullptr, nullptr};
  for (int unit = walk.first; unit < walk.units(); unit += walk.step)
    produce_rows<Config, typename Config::First>(block.ring, cursor, maps, walk.row(unit),
                                                 walk.begin(), walk.end(), walk.loads());
}

template <class Config, class Added, class Scaling, class BlockType>
SINTER_DEVICE void gemm_consume(const Arguments& args, const BlockType& block, u32 parts,
                                const UnitWalk<Config>& walk) {
  using P = typename Config::First;
  typename BlockType::CursorType cursor;
  cursor.pair_first = walk.k_rank;
  cursor.awaited = walk.own() * (walk.end() - walk.begin()) - Config::kStages;
  const WarpgroupPlace place = block.place();
  ReduceScatter<Config, P> reduce{
      parts, block.own_barrier(0), block.own_barrier(1), walk.pair * P::kSplitK, walk.k_rank, true};
  const Epilogue<P, typename Config::Element, typename Config::Activation, Config::kBias1, Scaling>
      epilogue{args.bias, args.bias_up, Scaling::of(args.factor, args.scale, args.m)};
  const GlobalWriter<P::kN, Config::kOutAligned> writer{args.out, args.out_stride, args.m};
  const Added added = Added::of(args.residual, args.residual_stride, args.m);
  for (int unit = walk.first; unit < walk.units(); unit += walk.step)
    consume_tile<Config, P, true>(block, cursor, 0, walk.end() - walk.begin(), place, reduce,
                                  epilogue, writer, walk.row(unit), walk.column(unit),
                                  unit + walk.step < walk.units(), added);
}

template <class Config, class Added = NoResidual, class Scaling = NoScaling>
SINTER_DEVICE void gemm(const Arguments& args) {
  using T = GemmTypes<Config>;
  using P = typename T::P;
  typename T::BlockType block;
  const UnitWalk<Config> walk(block.rank, args.m);
  launch_dependents();
  if (walk.own() == 0) {  // the same for all blocks of the cluster
    wait_for_predecessors();
    return;
  }
  if (threadIdx.x == 0) {
    block.ring.init(T::BlockType::kConsumers * kSharers<Config>);
    mbarrier_init(block.own_barrier(0), 1);
    mbarrier_init(block.own_barrier(1), P::kSplitK);
  }
  block.ready();
  if (block.is_producer()) {
    become_producer<Config, kGemmProducerRegisters>();
    before_weights<Config>();
    if (kSharers < Config >> 1) block.join();  // what it loads goes to its peer too
    if (threadIdx.x == 32 * kWeightsWarp) gemm_weights<Config>(args, block, walk);
    wait_for_predecessors();
    if (threadIdx.x == 32 * kRowsWarp) gemm_rows<Config>(args, block, walk);
    if (kSharers<Config> == 1) block.join();
  } else {
    become_consumer<Config, kGemmProducerRegisters>();
    wait_for_predecessors();
    block.join();
    gemm_consume<Config, Added, Scaling>(args, block, block.base + T::Layout::kParts, walk);
  }
}

}  // namespace sinter
