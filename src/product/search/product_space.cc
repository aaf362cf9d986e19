#include "src/product/search/product_space.h"

#include <algorithm>
#include <vector>

#include "src/base/ceil_div.h"
#include "src/product/search/space_walk.h"

namespace sinter {
namespace {

constexpr int kSharedSplits[] = {1, 2, 4};  // where pairs share loads
constexpr int kSwappedHeights = 6;          // with swapped operands: from the fewest M tiles on

class ProductSpace : public SpaceWalk {
 public:
  using SpaceWalk::SpaceWalk;

  void Products() {
    ForEachShape([&](const RowShape& r, int block_k) {
      for (int split : kSplits) {
        Schedule s = Begin(Dataflow::kProduct, r, block_k);
        s.cluster = split;
        Products(s, Tiles(r, s, p_[0].n, p_[0].Width(), split));
      }
      for (Share share : {Share::kWeights, Share::kRows}) {
        for (int split : kSharedSplits) {
          Schedule s = Begin(Dataflow::kProduct, r, block_k);
          s.cluster = 2 * split;
          s.share = share;
          Products(s, SharedTiles(r, s, split));
        }
      }
    });
  }

  // Weights as the rows of wgmma: as many M tiles as it takes and a few more, of even heights. Not
  // of 8 rows, where a tile has nothing to gain by it and lost 3 %.
  void SwappedProducts() {
    if (p_.rows() <= 8) return;
    for (int warpgroups : {1, 2, 3}) {
      for (int sets : {1, 2}) {
        for (int block_k : StepsOfK()) SwappedProducts(warpgroups, sets, block_k);
      }
    }
  }

 private:
  // A grid of the blocks with work, at most those that run at once: they walk the tiles.
  void Products(Schedule s, const std::vector<ProductTile>& tiles) {
    const int64_t resident = model_.ResidentBlocks(s.cluster);
    for (const ProductTile& tile : tiles) {
      s.first = tile;
      s.grid = static_cast<int>(std::min(SizesOf(p_, s).units * s.cluster, resident));
      Visit(s);
    }
  }

  void SwappedProducts(int warpgroups, int sets, int block_k) {
    Schedule s;
    s.swapped = true;
    s.warpgroups_m = 1;
    s.warpgroups_n = warpgroups;
    s.block_k = block_k;
    s.first.block_n = 64 * warpgroups * sets;
    if (s.first.block_n - 64 >= p_[0].n) return;
    const int64_t fewest = CeilDiv(p_.rows(), 256);
    for (int64_t tiles = fewest, last = 0; tiles < fewest + kSwappedHeights; tiles++) {
      const int64_t rows = CeilDiv(p_.rows(), tiles);
      if (RoundUp(rows, 8) == last) break;
      last = RoundUp(rows, 8);
      for (Share share : {Share::kNone, Share::kWeights, Share::kRows}) {
        if (share == Share::kWeights && tiles < 2) continue;
        s.share = share;
        s.block_m = static_cast<int>(RoundUp(rows, share == Share::kRows ? 16 : 8));
        SwappedSplits(s);
      }
    }
  }

  void SwappedSplits(Schedule s) {
    const int tiles = TilesM(s.share) * TilesN(s.share);
    for (int split : kSplits) {
      if (tiles * split > 8) break;
      s.cluster = tiles * split;
      s.first.split_k = split;
      Products(s, {s.first});
    }
  }

  // Widths for pairs of blocks, balanced over pairs of tiles.
  std::vector<ProductTile> SharedTiles(const RowShape& r, const Schedule& s, int split) const {
    const bool weights = s.share == Share::kWeights;
    if (weights && MTiles(r) < 2) return {};
    const int step = ColumnStep(p_, r) * (weights && p_.layout() == Layout::kOI ? 2 : 1);
    const int64_t m_units = CeilDiv(MTiles(r), TilesM(s.share));
    const int64_t columns = CeilDiv(p_[0].n, TilesN(s.share));  // of one block of each pair
    std::vector<ProductTile> tiles;
    for (int block_n : ColumnWidths(columns, m_units, model_.ResidentBlocks(s.cluster) / s.cluster,
                                    step, WidestTile(columns, p_[0].Width(), step, r))) {
      tiles.push_back({block_n, split});
    }
    return tiles;
  }
};

}  // namespace

void EnumerateProductSpace(const ProductSequence& sequence, const DeviceModel& model,
                           const std::function<void(const Schedule&)>& visit) {
  ProductSpace space(sequence, model, visit);
  space.Products();
  space.SwappedProducts();
}

}  // namespace sinter
