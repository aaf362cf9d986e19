// Dataflow "product": one product (or gate-up pair) a launch. The kernel is persistent: clusters
// walk units, and the producers run ahead into the next unit. So only a block's first tile waits
// for its first bytes, and only the epilogue of its last is not overlapped.
#pragma once
#include "kernels/tile_ends.cuh"

namespace sinter {

template <class Aux>
constexpr int kProductProducerRegisters = AfterTiles<Aux>::kPresent ? 56 : 40;
constexpr int kTilesWarp = 2;  // of the producers, beside kWeightsWarp and kRowsWarp

template <class Config, class Codes = NoCodes>
struct ProductTypes {
  using P = typename Config::First;
  using Layout = SharedLayout<Config, P::kRowsBytes + P::kWeightBytes, 0,
                              P::kPartBytes + Codes::template staged_bytes<P>()>;
  using BlockType = Block<Config, Layout>;
};

// A unit is a tile, whose K is shared by kSplitK ranks, or two neighbouring tiles, where rank r of
// one and rank r of the other load weights or rows for both. Cluster c takes units c, c + clusters,
// c + 2 clusters, .. Only rows that exist have units. Order: bands of kBand units along M, within a
// band M fastest. So the units that run at one time form about a square, and share rows and weights
// in L2.
//
// L2 serves equal loads of neighbouring SMs at about one time once. A product whose blocks have no
// cluster walks lower bands, of about kDealtBand units, where no band reads weights from HBM again:
// all units run at one time, or the weights stay in L2. Heights of bands differ by one unit at
// most: a last band of one or two units made such kernels take 1.1 to 1.3 times as long
// (docs/lab/cost-model.md).
//
// Rows of a box that do not exist cost L2 as much as others do, and more where a whole wave waits
// for them. Of plain rows the last tile begins earlier instead, at a multiple of 8 rows, and
// computes some rows once more, with the same bits. A pair's tile past the last one does so too.
// That needs a launch that reads nothing that it writes: a matrix that is added in place would be
// added twice.
template <class Config, class P>
struct UnitWalk {
  static constexpr int kBand = 16, kDealtBand = 4;
  static constexpr long long kKeptBytes = 16 << 20;  // of weights
  static constexpr bool kDeals = Config::kCluster == 1;
  static constexpr bool kOverlaps = !P::Rows::kIsWindow && !P::Rows::kTransposed;
  static constexpr bool kKept =
      static_cast<long long>(P::kWidth) * P::kN * P::kK * P::Element::kBytes <= kKeptBytes;
  static constexpr int kColumnUnits = ceil_div(P::kColumnTiles, P::kRowsShare);
  int step, m, m_units, k;
  bool apart;  // nothing is read that is written
  int first;   // this cluster's first unit
  int pair;    // which of a unit's tiles
  int k_rank;  // among the ranks that share a tile's K

  // `k`: of a launch that says it.
  SINTER_DEVICE UnitWalk(int cluster_rank, int m, int k = 0, bool apart = true)
      : step(gridDim.x / Config::kCluster),
        m(m),
        m_units(ceil_div(m, Config::kBlockM * P::kWeightsShare)),
        k(k),
        apart(apart),
        first(blockIdx.x / Config::kCluster),
        pair(cluster_rank / P::kSplitK),
        k_rank(cluster_rank % P::kSplitK) {}
  SINTER_DEVICE int units() const { return m_units * kColumnUnits; }
  // Units that this cluster takes.
  SINTER_DEVICE int own() const { return first < units() ? ceil_div(units() - first, step) : 0; }
  // Ring stages that this block needs for them.
  SINTER_DEVICE int stages() const { return own() * (end() - begin()); }
  // First row and first column of this block's tile of `unit`; either may lie outside the matrix.
  // An overlapping tile's rows may also be its neighbour's.
  SINTER_DEVICE int row(int unit) const {
    const int row = own_row(unit), tiled = m < Config::kBlockM ? Config::kBlockM : m;
    const int last = (tiled - Config::kBlockM + 7) / 8 * 8;
    return kOverlaps && apart && row > last ? last : row;
  }
  // The first row that is of no tile before.
  SINTER_DEVICE int own_row(int unit) const {
    const Bands of = bands();
    const int in_band = of.within(unit), height = of.height(unit);
    const int tile = of.units_before(unit) + in_band / (height * kColumnUnits) * height +
                     in_band % (height * kColumnUnits) % height;
    return (tile * P::kWeightsShare + (P::kWeightsShare > 1 ? pair : 0)) * Config::kBlockM;
  }
  SINTER_DEVICE int column(int unit) const {
    const Bands of = bands();
    const int height = of.height(unit);
    const int tile = of.within(unit) % (height * kColumnUnits) / height;
    return (tile * P::kRowsShare + (P::kRowsShare > 1 ? pair : 0)) * P::kBlockN;
  }
  // K blocks of this rank.
  SINTER_DEVICE int begin() const { return P::first_block(k_rank, k); }
  SINTER_DEVICE int end() const { return P::first_block(k_rank + 1, k); }
  SINTER_DEVICE PairLoads loads() const {
    return {pair, static_cast<u16>((1 | 1 << P::kSplitK) << k_rank)};
  }

 private:
  // Bands of `tall` units along M, which hold the first `tall_units` units, then bands of `low`.
  struct Bands {
    int tall, low, tall_units;
    SINTER_DEVICE int height(int unit) const { return unit < tall_units ? tall : low; }
    SINTER_DEVICE int within(int unit) const {
      return unit < tall_units ? unit : unit - tall_units;
    }
    SINTER_DEVICE int units_before(int unit) const {
      return unit < tall_units ? 0 : tall_units / kColumnUnits;
    }
  };
  SINTER_DEVICE Bands bands() const {
    if (kDeals && (kKept || units() <= step)) {
      const int count = m_units < kDealtBand ? 1 : (m_units + 1) / kDealtBand;
      const int low = m_units / count;
      return {low + 1, low, (m_units - count * low) * (low + 1) * kColumnUnits};
    }
    return {kBand, m_units % kBand, m_units / kBand * kBand * kColumnUnits};
  }
};

template <class Config>
using ProductUnits = UnitWalk<Config, typename Config::First>;

// Whether the result lies elsewhere than the matrix: it shares a buffer only with an input declared
// as its alias, and begins where that begins (BindPlan). Auxiliary results have no alias
// (RunMatcher::CheckAux).
template <class Matrix>
SINTER_DEVICE bool lies_apart(const Arguments& args) {
  const void* const matrix = args.residual;
  return !Matrix::kPresent || matrix != args.out;
}

template <class Config, class BlockType, class Walk>
SINTER_DEVICE void product_weights(const Arguments& args, const BlockType& block,
                                   const Walk& walk) {
  typename BlockType::CursorType cursor;
  const ProductMaps maps{nullptr, args.w1, args.w_up};
  for (int unit = walk.first; unit < walk.units(); unit += walk.step)
    produce_weights<Config, typename Config::First, true>(
        block.ring, cursor, maps, walk.column(unit), walk.begin(), walk.end(), walk.loads());
}

template <class Config, class BlockType, class Walk>
SINTER_DEVICE void product_rows(const Arguments& args, const BlockType& block, const Walk& walk) {
  typename BlockType::CursorType cursor;
  const ProductMaps maps{args.a, nullptr, nullptr};
  for (int unit = walk.first; unit < walk.units(); unit += walk.step)
    produce_rows<Config, typename Config::First>(block.ring, cursor, maps, walk.row(unit),
                                                 walk.begin(), walk.end(), walk.loads(),
                                                 walk.column(unit));
}

// Those of the K blocks from `begin` on.
template <class Config, class Scales>
SINTER_DEVICE Scales block_scales(const Arguments& args, int begin) {
  if constexpr (Scales::kPresent)
    return {args.scale_a, static_cast<const float*>(args.scale_w1),
            static_cast<const float*>(args.scale_up), args.m, begin * Config::First::kSubtiles};
  else
    return {};
}

template <class Config, class Matrix, class Scaling, class Scales, class Codes, class Aux,
          class BlockType>
SINTER_DEVICE void product_consume(const Arguments& args, const BlockType& block, u32 parts,
                                   const ProductUnits<Config>& walk) {
  using P = typename Config::First;
  typename BlockType::CursorType cursor;
  cursor.pair_first = walk.k_rank;
  cursor.awaited = walk.stages() - Config::kStages;
  const WarpgroupPlace place = block.place();
  DsmReduceScatter<Config, P> reduce{
      parts, block.own_barrier(0), block.own_barrier(1), walk.pair * P::kSplitK, walk.k_rank, true};
  auto epilogue = first_epilogue<Config, Scaling>(args);
  if constexpr (kTakesNorms<Scaling>) epilogue.scaling.squares = block.squares_at();
  const auto first_row = [&](int unit) {
    const int row = walk.row(unit);
    if constexpr (kTakesNorms<Scaling>) epilogue.scaling.first = row;
    return row;
  };
  const Matrix matrix = Matrix::of(args.residual, args.residual_stride, args.m);
  const Scales scales = block_scales<Config, Scales>(args, walk.begin());
  if constexpr (Codes::kPresent) {
    for (int unit = walk.first; unit < walk.units(); unit += walk.step) {
      const int row = first_row(unit), column = walk.column(unit), behind = row + Config::kBlockM;
      const bool again = unit + walk.step < walk.units();
      const int first = row + walk.k_rank * P::kOwnerRows;
      const StagedResults<P> staged{parts + P::kPartBytes, first, column,
                                    (behind < args.m ? behind : args.m) - first};
      consume_tile<Config, P, true>(block, cursor, 0, walk.end() - walk.begin(), place, reduce,
                                    epilogue, staged, row, column, again, matrix, scales);
      store_codes<Config>(staged, Codes::of(args), static_cast<unsigned char*>(args.out),
                          args.out_stride, again);
    }
  } else {
    const auto writer = with_aux<Config, P>(output_writer<Config, P>(args), args, Aux{});
    for (int unit = walk.first; unit < walk.units(); unit += walk.step) {
      consume_tile<Config, P, true>(block, cursor, 0, walk.end() - walk.begin(), place, reduce,
                                    epilogue, writer, first_row(unit), walk.column(unit),
                                    unit + walk.step < walk.units(), matrix, scales);
      if constexpr (AfterTiles<Aux>::kPresent) AfterTiles<Aux>::stored(block.tag_at());
    }
  }
}

template <class Config, class Matrix = NoMatrix, class Scaling = NoScaling,
          class Scales = NoBlockScales, class Codes = NoCodes, class Aux = OneResult>
SINTER_DEVICE void product(const Arguments& args) {
  using T = ProductTypes<Config, Codes>;
  using P = typename T::P;
  typename T::BlockType block;
  const ProductUnits<Config> walk(block.rank, args.m, args.k, lies_apart<Matrix>(args));
  launch_dependents();
  if (walk.own() == 0) {  // the same for all blocks of the cluster
    wait_for_predecessors();
    return;
  }
  if (threadIdx.x == 0) {
    // Of a norm of the rows each warp releases the stages that it has read.
    block.ring.init(T::BlockType::kConsumers * Config::kSharers * (kTakesNorms<Scaling> ? 4 : 1));
    mbarrier_init(block.own_barrier(0), 1);
    mbarrier_init(block.own_barrier(1), P::kSplitK);
    if constexpr (AfterTiles<Aux>::kPresent) store_shared(block.tag_at(), 0);
  }
  block.ready();
  if (block.is_producer()) {
    become_producer<Config, kProductProducerRegisters<Aux>>();
    before_weights<Config>();
    if (Config::kSharers > 1) block.join();  // what it loads goes to its peer too
    if (threadIdx.x == 32 * kWeightsWarp) product_weights<Config>(args, block, walk);
    wait_for_predecessors();
    if (threadIdx.x == 32 * kRowsWarp) product_rows<Config>(args, block, walk);
    if constexpr (AfterTiles<Aux>::kPresent) {
      if (threadIdx.x / 32 == kTilesWarp)
        AfterTiles<Aux>::template send<Config, P>(args, walk, block.tag_at());
    }
    if (Config::kSharers == 1) block.join();
  } else {
    become_consumer<Config, kProductProducerRegisters<Aux>>();
    wait_for_predecessors();
    block.join();
    product_consume<Config, Matrix, Scaling, Scales, Codes, Aux>(
        args, block, block.base + T::Layout::kParts, walk);
  }
}

}  // namespace sinter
