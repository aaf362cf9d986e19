// The units of one product in the order in which clusters take them.
#pragma once
#include "pipeline/producer.cuh"
#include "ptx/sync.cuh"

namespace sinter {

// A unit is a tile, whose K is shared by kSplitK ranks, or two neighbouring tiles, where rank r of
// one and rank r of the other load weights or rows for both. A launch's list of units may begin
// with those of other products. Cluster c takes units c, c + clusters, c + 2 clusters, .. of the
// whole list. Only rows that exist have units. Order: bands of kBand units along M, within a band M
// fastest. So the units that run at one time form about a square, and share rows and weights in L2.
//
// A launch deals blocks out to groups of SMs in turns, and L2 serves equal loads of a group at
// about one time once. With kAlone, a product whose blocks have no cluster walks bands of
// kDealtBand tiles, so that those of a group take the same rows, where no band reads weights from
// HBM again: all units run at one time, or the weights stay in L2.
//
// Rows of a box that do not exist cost L2 as much as others do, and more where a whole wave waits
// for them. With kOverlaps the last tile begins earlier instead, at a multiple of 8 rows, and
// computes some rows once more, with the same bits. That needs a launch that reads nothing that it
// writes: a matrix that is added in place would be added twice.
template <class Config, class P, bool kAlone = false, bool kOverlaps_ = false>
struct UnitWalk {
  static constexpr int kBand = 16, kDealtBand = 4;
  static constexpr long long kKeptBytes = 16 << 20;  // of weights
  static constexpr bool kDeals = kAlone && Config::kCluster == 1;
  static constexpr bool kOverlaps = kOverlaps_ && !P::Rows::kIsWindow && !P::Rows::kTransposed;
  static constexpr bool kKept =
      static_cast<long long>(P::kWidth) * P::kN * P::kK * P::Element::kBytes <= kKeptBytes;
  static constexpr int kColumnUnits = ceil_div(P::kColumnTiles, P::kRowsShare);
  int step, m, m_units, k;
  bool apart;  // nothing is read that is written
  int first;   // this cluster's first unit
  int pair;    // which of a unit's tiles
  int k_rank;  // among the ranks that share a tile's K

  // `before`: units of the list before this product's. `k`: of a launch that says it.
  SINTER_DEVICE UnitWalk(int cluster_rank, int m, int before = 0, int k = 0, bool apart = true)
      : step(gridDim.x / Config::kCluster),
        m(m),
        m_units(ceil_div(m, Config::kBlockM * P::kWeightsShare)),
        k(k),
        apart(apart),
        first((blockIdx.x / Config::kCluster + step - before % step) % step),
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
    const int row = own_row(unit), last = (m - Config::kBlockM + 7) / 8 * 8;
    return kOverlaps && apart && last > 0 && row > last && row < m ? last : row;
  }
  // The first row that is of no tile before.
  SINTER_DEVICE int own_row(int unit) const {
    const int tile = dealt() ? tile_row<kDealtBand>(unit) : tile_row<kBand>(unit);
    return (tile * P::kWeightsShare + (P::kWeightsShare > 1 ? pair : 0)) * Config::kBlockM;
  }
  SINTER_DEVICE int column(int unit) const {
    const int tile = dealt() ? tile_column<kDealtBand>(unit) : tile_column<kBand>(unit);
    return (tile * P::kRowsShare + (P::kRowsShare > 1 ? pair : 0)) * P::kBlockN;
  }
  // K blocks of this rank.
  SINTER_DEVICE int begin() const { return P::first_block(k_rank, k); }
  SINTER_DEVICE int end() const { return P::first_block(k_rank + 1, k); }
  SINTER_DEVICE PairLoads loads() const {
    return {pair, static_cast<u16>((1 | 1 << P::kSplitK) << k_rank)};
  }

 private:
  SINTER_DEVICE bool dealt() const { return kDeals && (kKept || units() <= step); }
  template <int kOf>
  SINTER_DEVICE int tile_row(int unit) const {
    return unit / (kOf * kColumnUnits) * kOf + unit % (kOf * kColumnUnits) % height<kOf>(unit);
  }
  template <int kOf>
  SINTER_DEVICE int tile_column(int unit) const {
    return unit % (kOf * kColumnUnits) / height<kOf>(unit);
  }
  // Units along M of the band that `unit` is in.
  template <int kOf>
  SINTER_DEVICE int height(int unit) const {
    const int left = m_units - unit / (kOf * kColumnUnits) * kOf;
    return left < kOf ? left : kOf;
  }
};

}  // namespace sinter
