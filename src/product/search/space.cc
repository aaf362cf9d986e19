#include "src/product/search/space.h"

#include <algorithm>

#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

constexpr int64_t kMaxRowTiles = 128;
constexpr int kLeastShareOfBlock = 16;  // columns a warpgroup, of those that share a scale
constexpr int kTurns = 4;               // numbers of tiles a group that widths are balanced for

// Multiples of `step` that divide the columns of groups that share a tile.
std::vector<int> WidthsIn(int64_t bundle, int step, int widest) {
  std::vector<int> widths;
  for (int width = step; width <= std::min<int64_t>(widest, bundle); width += step) {
    if (bundle % width == 0) widths.push_back(width);
  }
  return widths;
}

constexpr int kMostStagesTried = 16;

// The most stages that fit, but no more than a block loads: where it walks several tiles, its
// producers run ahead into the next ones.
void FillRing(const ProductSequence& p, const DeviceModel& model, Schedule* s) {
  s->stages = 0;
  const ScheduleSizes z = SizesOf(p, *s);
  const int64_t free = model.shared_bytes_per_block - z.shared_bytes;
  const int64_t fit = free > 0 && z.stage_bytes > 0 ? free / z.stage_bytes : 0;
  const int64_t steps =
      CeilDiv(p[0].StagedK(), s->block_k) + (p.size() == 2 ? CeilDiv(p[0].n, s->block_k) : 0);
  const int64_t clusters = std::max(1, model.ResidentBlocks(s->cluster) / s->cluster);
  const int64_t tiles = p.size() == 1 ? std::max<int64_t>(1, CeilDiv(z.units, clusters)) : 1;
  const int64_t want = std::max<int64_t>(2, std::min<int64_t>(kMostStagesTried, steps * tiles));
  s->stages = static_cast<int>(std::min(fit, want));
}

}  // namespace

std::vector<RowShape> RowShapes(const ProductSequence& p) {
  const int64_t step = RowStep(p), most = std::min<int64_t>(128, RoundUp(p.rows(), step));
  std::vector<int64_t> rows = {8, 16, 32, 64, 128, most};
  if (p.rows() % 96 == 0) rows.push_back(96);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  std::vector<RowShape> shapes;
  for (int64_t r : rows) {
    if (r > most || r % step != 0 || (r < most && CeilDiv(p.rows(), r) > kMaxRowTiles)) continue;
    const int block_m = static_cast<int>(r);
    if (block_m > 64) {
      shapes.push_back({block_m, 2, 1});
    } else {
      shapes.push_back({block_m, 1, 1});
      shapes.push_back({block_m, 1, 2});
    }
  }
  // Three warpgroups, under windows or where their rows cover the bucket with less padding than two
  // warpgroups' do.
  constexpr int kThree = 192;
  const bool windows = p.front().rows.source == Source::kWindow && p.rows() > 128;
  if (p.size() == 1 && (windows || RoundUp(p.rows(), kThree) < RoundUp(p.rows(), 128)))
    shapes.push_back({kThree, 3, 1});
  return shapes;
}

int RowStep(const ProductSequence& p) {
  return p.front().HasTransposedRows() ? ElementOf(p.element()).swizzle_span : 8;
}

int ColumnStep(const ProductSequence& p, const RowShape& r) {
  if (p.back().HasGroups()) return kScaleBlock;
  const ElementRow element = ElementOf(p.element());
  const int each = p.layout() == Layout::kIO ? element.swizzle_span : element.exact ? 16 : 8;
  return each * r.warpgroups_n;
}

int WidestTile(int64_t columns, int width, int step, const RowShape& r) {
  const int most = (r.warpgroups_m == 3 ? 144 : 256) / width * r.warpgroups_n / step * step;
  return static_cast<int>(std::min<int64_t>(most, RoundUp(columns, step)));
}

std::vector<int> ColumnWidths(int64_t columns, int64_t row_tiles, int64_t groups, int step,
                              int widest) {
  std::vector<int> widths;
  if (widest < step || groups < 1) return widths;
  // With t tiles a group there are at most t * groups tiles, which gives the column ranges of each
  // row tile.
  int found = 0;
  for (int64_t turns = 1; turns <= 64 && found < kTurns; turns++) {
    const int64_t ranges = turns * groups / row_tiles;
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

std::vector<int> TileWidths(const ProductSequence& p, const RowShape& r, int width, int64_t columns,
                            int64_t row_tiles, int64_t groups, int step) {
  const int widest = WidestTile(columns, width, step, r);
  if (const int64_t bundle = p.front().BundleColumns(); bundle > 0) {
    return WidthsIn(bundle, step, widest);
  }
  if (p.front().weights.scales.kind != ScaleKind::kBlock)
    return ColumnWidths(columns, row_tiles, groups, step, widest);
  std::vector<int> widths;
  for (int each = kLeastShareOfBlock; each <= kScaleBlock; each *= 2) {
    const int block_n = each * r.warpgroups_n;
    if (block_n % step == 0 && block_n <= widest) widths.push_back(block_n);
  }
  // A matrix of fewer columns than the least tile is one tile.
  if (widths.empty() && columns < kLeastShareOfBlock && kLeastShareOfBlock % step == 0) {
    widths.push_back(kLeastShareOfBlock * r.warpgroups_n);
  }
  return widths;
}

void EnumerateSpace(const ProductSequence& sequence, const DeviceModel& model,
                    const SearchOptions& options,
                    const std::function<void(const Schedule&)>& visit) {
  if (options.only != nullptr) return options.only->Visit(sequence, model, visit);
  const SpaceWalk walk(sequence, model, visit);
  for (const DataflowRow* row : AllDataflows()) {
    if (row->products != sequence.size() || row->offered > options.offered) continue;
    if (row->cooperative && !options.allow_cooperative) continue;
    row->enumerate(walk);
  }
}

Schedule SpaceWalk::Begin(Dataflow dataflow, const RowShape& r, int block_k) {
  Schedule s;
  s.dataflow = dataflow;
  s.block_m = r.block_m;
  s.warpgroups_m = r.warpgroups_m;
  s.warpgroups_n = r.warpgroups_n;
  s.block_k = block_k;
  return s;
}

std::vector<ProductTile> SpaceWalk::Tiles(const RowShape& r, const Schedule& s, int64_t columns,
                                          int width, int split) const {
  const int step = ColumnStep(p, r);
  const int64_t groups = model.ResidentBlocks(s.cluster) / split;
  std::vector<ProductTile> tiles;
  for (int block_n : TileWidths(p, r, width, columns, RowTiles(r), groups, step)) {
    tiles.push_back({block_n, split});
  }
  return tiles;
}

void SpaceWalk::Visit(Schedule s) const {
  FillRing(p, model, &s);
  visit_(s);
}

}  // namespace sinter
