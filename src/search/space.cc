#include "src/search/space.h"

#include <algorithm>
#include <numeric>

#include "src/base/ceil_div.h"

namespace sinter {
namespace {

constexpr int kSplits[] = {1, 2, 4, 8};
constexpr int kSharedSplits[] = {1, 2, 4};  // where pairs share loads
constexpr int kTurns = 4;                   // tiles a group that widths are balanced for
constexpr int kSwappedHeights = 6;          // with swapped operands: from the fewest M tiles on
constexpr int kMaxStages = 16;
constexpr int64_t kMaxRowTiles = 128;
constexpr int64_t kMostParts = 16;       // clusters that share an M tile
constexpr int64_t kLeastListRows = 129;  // below, a product has no two row tiles of 128
constexpr int kListStep = 16;            // of a task list's widths, which are balanced together

// Row tile and how warpgroups share it.
struct RowShape {
  int block_m, warpgroups_m, warpgroups_n;
};

std::vector<RowShape> RowShapes(const FfnProblem& p) {
  const int64_t most = std::min<int64_t>(128, RoundUp(p.bucket, 8));
  std::vector<int64_t> rows = {8, 16, 32, 64, 128, most};
  if (p.bucket % 96 == 0) rows.push_back(96);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  std::vector<RowShape> shapes;
  for (int64_t r : rows) {
    if (r > most || (r < most && CeilDiv(p.bucket, r) > kMaxRowTiles)) continue;
    const int block_m = static_cast<int>(r);
    if (block_m > 64) {
      shapes.push_back({block_m, 2, 1});
    } else {
      shapes.push_back({block_m, 1, 1});
      shapes.push_back({block_m, 1, 2});
    }
  }
  // Three warpgroups where their rows cover the bucket with less padding than two do.
  constexpr int kThree = 192;
  if (p.products == 1 && RoundUp(p.bucket, kThree) < RoundUp(p.bucket, 128))
    shapes.push_back({kThree, 3, 1});
  return shapes;
}

int ColumnStep(const FfnProblem& p, const RowShape& r) {
  return (p.layout == Layout::kIO ? 64 : 8) * r.warpgroups_n;
}

// wgmma N at most 256 in each warpgroup, 144 in each of three; no wider than the columns there are.
int WidestTile(int64_t columns, int width, int step, const RowShape& r) {
  const int most = (r.warpgroups_m == 3 ? 144 : 256) / width * r.warpgroups_n / step * step;
  return static_cast<int>(std::min<int64_t>(most, RoundUp(columns, step)));
}

Schedule Begin(Dataflow dataflow, const RowShape& r, int block_k) {
  Schedule s;
  s.dataflow = dataflow;
  s.block_m = r.block_m;
  s.warpgroups_m = r.warpgroups_m;
  s.warpgroups_n = r.warpgroups_n;
  s.block_k = block_k;
  return s;
}

// The deepest ring that fits, but no deeper than the stages there are to load.
void FillRing(const FfnProblem& p, const DeviceModel& model, Schedule* s) {
  s->stages = 0;
  const ScheduleSizes z = SizesOf(p, *s);
  const int64_t free = model.shared_bytes_per_block - z.shared_bytes;
  const int64_t fit = free > 0 && z.stage_bytes > 0 ? free / z.stage_bytes : 0;
  const int64_t steps = CeilDiv(p.k, s->block_k) + (p.products == 2 ? CeilDiv(p.n, s->block_k) : 0);
  const int64_t want = std::max<int64_t>(2, std::min<int64_t>(kMaxStages, steps));
  s->stages = static_cast<int>(std::min(fit, want));
}

class Enumerator {
 public:
  Enumerator(const FfnProblem& p, const DeviceModel& model,
             const std::function<void(const Schedule&)>& visit)
      : p_(p), model_(model), visit_(visit) {}

  void Products() {
    ForEachShape([&](const RowShape& r, int block_k) {
      for (int split : kSplits) {
        Schedule s = Begin(Dataflow::kProduct, r, block_k);
        s.cluster = split;
        Products(s, Tiles(r, s, p_.n, p_.FirstWidth(), split));
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
    if (p_.bucket <= 8) return;
    for (int warpgroups : {1, 2, 3}) {
      for (int sets : {1, 2}) {
        for (int block_k : {64, 128}) SwappedProducts(warpgroups, sets, block_k);
      }
    }
  }

  void GridExchanges() {
    ForEachShape([&](const RowShape& r, int block_k) {
      for (int split1 : kSplits) {
        for (int split2 : kSplits) GridExchanges(r, block_k, split1, split2);
      }
    });
  }

  // Ranges of N as even as whole columns and stages allow, over every number of clusters that runs
  // at once; more parts of E than kMostParts never paid.
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
        s.spatial_gate = options.spatial_gates && p_.gated && cluster > 1;
        if (s.spatial_gate && ClusterTiles(r, &s)) Visit(s);
      }
    });
  }

  // Two row tiles at least, of 64 rows at least: with fewer there is no list to balance.
  void TaskLists() {
    if (p_.bucket < kLeastListRows) return;
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
  template <typename F>
  void ForEachShape(F&& f) {
    for (const RowShape& r : RowShapes(p_)) {
      for (int block_k : {64, 128}) f(r, block_k);
    }
  }

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
    if (s.first.block_n - 64 >= p_.n) return;
    const int64_t fewest = CeilDiv(p_.bucket, 256);
    for (int64_t tiles = fewest, last = 0; tiles < fewest + kSwappedHeights; tiles++) {
      const int64_t rows = CeilDiv(p_.bucket, tiles);
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
    const int step = ColumnStep(p_, r) * (weights && p_.layout == Layout::kOI ? 2 : 1);
    const int64_t m_units = CeilDiv(MTiles(r), TilesM(s.share));
    const int64_t columns = CeilDiv(p_.n, TilesN(s.share));  // of one block of each pair
    std::vector<ProductTile> tiles;
    for (int block_n : ColumnWidths(columns, m_units, model_.ResidentBlocks(s.cluster) / s.cluster,
                                    step, WidestTile(columns, p_.FirstWidth(), step, r))) {
      tiles.push_back({block_n, split});
    }
    return tiles;
  }

  int64_t MTiles(const RowShape& r) const { return CeilDiv(p_.bucket, r.block_m); }

  std::vector<ProductTile> Tiles(const RowShape& r, const Schedule& s, int64_t columns, int width,
                                 int split) const {
    const int step = ColumnStep(p_, r);
    const int64_t groups = model_.ResidentBlocks(s.cluster) / split;
    std::vector<ProductTile> tiles;
    for (int block_n :
         ColumnWidths(columns, MTiles(r), groups, step, WidestTile(columns, width, step, r))) {
      tiles.push_back({block_n, split});
    }
    return tiles;
  }

  void GridExchanges(const RowShape& r, int block_k, int split1, int split2) {
    Schedule s = Begin(Dataflow::kGridExchange, r, block_k);
    s.cluster = std::max(split1, split2);
    const auto first = Tiles(r, s, p_.n, p_.FirstWidth(), split1);
    const auto second = Tiles(r, s, p_.l, 1, split2);
    const int64_t resident = model_.ResidentBlocks(s.cluster);
    for (const ProductTile& one : first) {
      for (const ProductTile& two : second) {
        const int64_t busy = MTiles(r) * std::max(CeilDiv(p_.n, one.block_n) * split1,
                                                  CeilDiv(p_.l, two.block_n) * split2);
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
    const int64_t first = RoundUp(CeilDiv(p_.n, s->cluster / GateRanks(*s)), step);
    const int64_t second = RoundUp(CeilDiv(p_.l, s->cluster), step);
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
      const int64_t columns = p_.n * quarter / kQuarters / s.block_k * s.block_k;
      if (columns == last) continue;
      s.slab_columns = static_cast<int>(last = columns);
      Visit(s);
    }
  }

  void ClusterRanges(const RowShape& r, int block_k, int cluster) {
    const int step = ColumnStep(p_, r);
    const int64_t second = RoundUp(CeilDiv(p_.l, cluster), step);
    if (second > WidestTile(second, 1, step, r)) return;
    // Columns of a block, of which a cluster has whole stages.
    const int64_t whole = std::lcm<int64_t>(step, block_k / std::gcd(block_k, cluster));
    const int64_t resident = model_.ResidentBlocks(cluster) / cluster / MTiles(r);
    int64_t last = 0;
    for (int64_t clusters = 2; clusters <= std::min(resident, kMostParts); clusters++) {
      const int64_t first = RoundUp(CeilDiv(p_.n, clusters * cluster), whole);
      if (first == last || first > WidestTile(first, p_.FirstWidth(), step, r)) continue;
      last = first;
      Schedule s = Begin(Dataflow::kClusterExchange, r, block_k);
      s.cluster = cluster;
      s.clusters_n = static_cast<int>(CeilDiv(p_.n, first * cluster));
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
    for (int width1 : ListWidths(r, p_.n, p_.FirstWidth(), one.share)) {
      for (int width2 : ListWidths(r, p_.l, 1, two.share)) {
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

  void Visit(Schedule s) {
    FillRing(p_, model_, &s);
    visit_(s);
  }

  const FfnProblem& p_;
  const DeviceModel& model_;
  const std::function<void(const Schedule&)>& visit_;
};

}  // namespace

std::vector<int> ColumnWidths(int64_t columns, int64_t m_tiles, int64_t groups, int step,
                              int widest) {
  std::vector<int> widths;
  if (widest < step || groups < 1) return widths;
  // With t tiles a group there may be t * groups tiles, hence so many column ranges of each row
  // tile.
  int found = 0;
  for (int64_t turns = 1; turns <= 64 && found < kTurns; turns++) {
    const int64_t ranges = turns * groups / m_tiles;
    if (ranges < 1) continue;
    const int64_t width = RoundUp(CeilDiv(columns, ranges), step);
    if (width > widest) continue;
    widths.push_back(static_cast<int>(width));
    found++;
  }
  widths.push_back(widest);
  const int half = widest / 2 / step * step;
  if (half >= step) widths.push_back(half);
  std::sort(widths.begin(), widths.end());
  widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
  return widths;
}

void EnumerateSpace(const FfnProblem& problem, const DeviceModel& model,
                    const SearchOptions& options,
                    const std::function<void(const Schedule&)>& visit) {
  Enumerator space(problem, model, visit);
  if (problem.products == 1) {
    space.Products();
    space.SwappedProducts();
    return;
  }
  if (options.allow_cooperative) space.GridExchanges();
  space.ClusterExchanges(options);
  if (options.allow_cooperative && options.cluster_ranges) space.ClusterRanges();
  if (options.allow_cooperative && options.task_lists) space.TaskLists();
}

}  // namespace sinter
