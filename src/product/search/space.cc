#include "src/product/search/space.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "src/base/ceil_div.h"
#include "src/product/search/product_space.h"
#include "src/product/search/space_walk.h"

namespace sinter {
namespace {

constexpr int64_t kMostRanges = 16;      // clusters that share an M tile
constexpr int64_t kLeastListRows = 129;  // below, a product has no two row tiles of 128
constexpr int kListStep = 16;            // of a task list's widths, which are balanced together

// Of two products.
class ChainSpace : public SpaceWalk {
 public:
  using SpaceWalk::SpaceWalk;

  void GridExchanges() {
    ForEachShape([&](const RowShape& r, int block_k) {
      for (int split1 : kSplits) {
        for (int split2 : kSplits) GridExchanges(r, block_k, split1, split2);
      }
    });
  }

  // Ranges of N as even as whole columns and stages allow, over every number of clusters that runs
  // at once; more parts of E than kMostRanges never paid.
  void ClusterRanges() {
    ForEachShape([&](const RowShape& r, int block_k) {
      for (int cluster : kClusterSizes) ClusterRanges(r, block_k, cluster);
    });
  }

  void ClusterExchanges(const SearchOptions& options) {
    ForEachShape([&](const RowShape& r, int block_k) {
      for (int cluster : kClusterSizes) {
        Schedule s = Begin(Dataflow::kClusterExchange, r, block_k);
        s.cluster = cluster;
        s.grid = static_cast<int>(MTiles(r) * cluster);
        if (ClusterTiles(r, &s)) {
          Visit(s);
          if (options.slabs) Slabs(s);
        }
        s.spatial_gate = options.spatial_gates && p_[0].pair && cluster > 1;
        if (s.spatial_gate && ClusterTiles(r, &s)) Visit(s);
      }
    });
  }

  // Two row tiles at least, of 64 rows at least: with fewer there is no list to balance.
  void TaskLists() {
    if (p_.rows() < kLeastListRows) return;
    ForEachShape([&](const RowShape& r, int block_k) {
      if (r.block_m < 64) return;
      for (const Grouping& one : kGroupings) {
        for (const Grouping& two : kGroupings) {
          if (one.Blocks() == two.Blocks()) TaskLists(r, block_k, one, two);
        }
      }
    });
  }

 private:
  void GridExchanges(const RowShape& r, int block_k, int split1, int split2) {
    Schedule s = Begin(Dataflow::kGridExchange, r, block_k);
    s.cluster = std::max(split1, split2);
    const auto first = Tiles(r, s, p_[0].n, p_[0].Width(), split1);
    const auto second = Tiles(r, s, p_[1].n, 1, split2);
    const int64_t resident = model_.ResidentBlocks(s.cluster);
    for (const ProductTile& one : first) {
      for (const ProductTile& two : second) {
        const int64_t busy = MTiles(r) * std::max(CeilDiv(p_[0].n, one.block_n) * split1,
                                                  CeilDiv(p_[1].n, two.block_n) * split2);
        s.first = one;
        s.second = two;
        s.grid = static_cast<int>(std::min(RoundUp(busy, s.cluster), resident));
        Visit(s);
      }
    }
  }

  // Columns of a block where the cluster has all of N, and of L; false: tiles would be too wide.
  bool ClusterTiles(const RowShape& r, Schedule* s) const {
    const int step = ColumnStep(p_, r);
    const int64_t first = RoundUp(CeilDiv(p_[0].n, s->cluster / GateRanks(*s)), step);
    const int64_t second = RoundUp(CeilDiv(p_[1].n, s->cluster), step);
    s->first = {static_cast<int>(first), 1};
    s->second = {static_cast<int>(second), 1};
    return first <= WidestTile(first, FirstWidth(p_, *s), step, r) &&
           second <= WidestTile(second, 1, step, r);
  }

  // With a slab for a quarter, half and three quarters of C.
  void Slabs(Schedule s) {
    if (s.cluster == 1) return;
    constexpr int kQuarters = 4;
    int64_t last = 0;
    for (int64_t quarter = 1; quarter < kQuarters; ++quarter) {
      const int64_t columns = p_[0].n * quarter / kQuarters / s.block_k * s.block_k;
      if (columns == last) continue;
      s.slab_columns = static_cast<int>(last = columns);
      Visit(s);
    }
  }

  void ClusterRanges(const RowShape& r, int block_k, int cluster) {
    const int step = ColumnStep(p_, r);
    const int64_t second = RoundUp(CeilDiv(p_[1].n, cluster), step);
    if (second > WidestTile(second, 1, step, r)) return;
    // Columns of a block, of which a cluster has whole stages.
    const int64_t whole = std::lcm<int64_t>(step, block_k / std::gcd(block_k, cluster));
    const int64_t resident = model_.ResidentBlocks(cluster) / cluster / MTiles(r);
    int64_t last = 0;
    for (int64_t clusters = 2; clusters <= std::min(resident, kMostRanges); clusters++) {
      const int64_t first = RoundUp(CeilDiv(p_[0].n, clusters * cluster), whole);
      if (first == last || first > WidestTile(first, p_[0].Width(), step, r)) continue;
      last = first;
      Schedule s = Begin(Dataflow::kClusterExchange, r, block_k);
      s.cluster = cluster;
      s.clusters_n = static_cast<int>(CeilDiv(p_[0].n, first * cluster));
      if (s.clusters_n < 2) continue;
      s.grid = static_cast<int>(MTiles(r) * s.clusters_n * cluster);
      s.first = {static_cast<int>(first), 1};
      s.second = {static_cast<int>(second), 1};
      Visit(s);
    }
  }

  // How the blocks of a task list's cluster work together on a unit.
  struct Grouping {
    Share share;
    int split_k;
    int Blocks() const { return TilesOf(share) * split_k; }
  };
  static constexpr Grouping kGroupings[] = {
      {Share::kNone, 1}, {Share::kNone, 2}, {Share::kWeights, 1}, {Share::kRows, 1}};

  void TaskLists(const RowShape& r, int block_k, const Grouping& one, const Grouping& two) {
    Schedule s = Begin(Dataflow::kTaskList, r, block_k);
    s.cluster = one.Blocks();
    s.share = one.share;
    s.second_share = two.share;
    const int64_t resident = model_.ResidentBlocks(s.cluster);
    for (int width1 : ListWidths(r, p_[0].n, p_[0].Width(), one.share)) {
      for (int width2 : ListWidths(r, p_[1].n, 1, two.share)) {
        s.first = {width1, one.split_k};
        s.second = {width2, two.split_k};
        s.grid = static_cast<int>(std::min(SizesOf(p_, s).units * s.cluster, resident));
        Visit(s);
      }
    }
  }

  // From a third of the widest tile to the widest: of those that make equally many tiles the
  // narrowest.
  std::vector<int> ListWidths(const RowShape& r, int64_t columns, int width, Share share) const {
    const int step = std::max(ColumnStep(p_, r), kListStep * r.warpgroups_n);
    const int64_t of_pair = CeilDiv(columns, TilesN(share));
    const int widest = WidestTile(of_pair, width, step, r);
    std::vector<int> widths;
    int64_t tiles = 0;
    for (int w = std::max(step, widest / 3 / step * step); w <= widest; w += step) {
      const int64_t now = CeilDiv(columns, w);
      if (now != tiles) widths.push_back(w);
      tiles = now;
    }
    return widths;
  }
};

}  // namespace

void EnumerateSpace(const ProductSequence& sequence, const DeviceModel& model,
                    const SearchOptions& options,
                    const std::function<void(const Schedule&)>& visit) {
  if (sequence.size() == 1) return EnumerateProductSpace(sequence, model, visit);
  ChainSpace space(sequence, model, visit);
  if (options.allow_cooperative) space.GridExchanges();
  space.ClusterExchanges(options);
  if (options.allow_cooperative && options.cluster_ranges) space.ClusterRanges();
  if (options.allow_cooperative && options.task_lists) space.TaskLists();
}

}  // namespace sinter
