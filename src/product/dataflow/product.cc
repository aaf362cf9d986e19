// Product: one product a launch. Persistent clusters walk over tiles, or pairs of tiles whose
// blocks share loads. No waiting across clusters.
#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/schedule_check.h"
#include "src/product/search/space.h"

namespace sinter {
namespace {

constexpr int kSharedSplits[] = {1, 2, 4};  // with shared loads
constexpr int kSwappedHeights = 6;          // tile heights tried with swapped operands
constexpr int kMostSwappedRows = 256;       // N of wgmma
constexpr int kNormEndCycles = 250;         // from the last sum of squares to the factor of a row

constexpr int64_t kOneTileRows = 128;
constexpr int64_t kSectorBytes = 32;  // of a line of L2
constexpr int kOneBehind = 4;  // stages with which products stay in flight between two of them

absl::Status CheckProduct(const ProductSequence&, const Schedule& s, const ScheduleSizes&) {
  const int tiles = TilesOf(s.share);
  if (s.cluster == tiles * s.first.split_k) return absl::OkStatus();
  return RefuseSchedule(
      "cluster", s.cluster,
      absl::StrCat("is not first.split_k ", s.first.split_k,
                   tiles > 1 ? absl::StrCat(" for each of ", tiles, " tiles") : ""));
}

// The grid is the number of blocks with work, at most those that are resident at once.
void VisitProducts(const SpaceWalk& w, Schedule s, const std::vector<ProductTile>& tiles) {
  const int64_t resident = w.model.ResidentBlocks(s.cluster);
  for (const ProductTile& tile : tiles) {
    s.first = tile;
    s.grid = static_cast<int>(std::min(SizesOf(w.p, s).units * s.cluster, resident));
    w.Visit(s);
  }
}

// Tile widths for pairs of blocks, balanced over pairs of tiles.
std::vector<ProductTile> SharedTiles(const SpaceWalk& w, const RowShape& r, const Schedule& s,
                                     int split) {
  const bool weights = s.share == Share::kWeights;
  if (weights && w.RowTiles(r) < 2) return {};
  const bool halves = weights && w.p.layout() == Layout::kOI && !w.p[0].HasGroups();
  const int step = ColumnStep(w.p, r) * (halves ? 2 : 1);
  const int64_t m_units = CeilDiv(w.RowTiles(r), TilesM(s.share));
  const int64_t columns = CeilDiv(w.p[0].n, TilesN(s.share));  // of one block of each pair
  std::vector<ProductTile> tiles;
  for (int block_n : TileWidths(w.p, r, w.p[0].Width(), columns, m_units,
                                w.model.ResidentBlocks(s.cluster) / s.cluster, step)) {
    tiles.push_back({block_n, split});
  }
  return tiles;
}

void EnumeratePlain(const SpaceWalk& w) {
  w.ForEachShape(Dataflow::kProduct, [&](const RowShape& r, Schedule s) {
    for (int split : SpaceWalk::kSplits) {
      s.cluster = split;
      VisitProducts(w, s, w.Tiles(r, s, w.p[0].n, w.p[0].Width(), split));
    }
    for (Share share : {Share::kWeights, Share::kRows}) {
      for (int split : kSharedSplits) {
        s.cluster = 2 * split;
        s.share = share;
        VisitProducts(w, s, SharedTiles(w, r, s, split));
      }
    }
  });
}

void SwappedSplits(const SpaceWalk& w, Schedule s) {
  for (int split : SpaceWalk::kSplits) {
    if (TilesOf(s.share) * split > 8) break;
    s.cluster = TilesOf(s.share) * split;
    s.first.split_k = split;
    VisitProducts(w, s, {s.first});
  }
}

// Heights of tiles of `s`, which says whether blocks share loads: of the fewest row tiles that
// cover the rows and of a few more, and those that let the blocks share all tiles evenly.
std::set<int> SwappedHeights(const SpaceWalk& w, const Schedule& s) {
  const int step = std::max(s.share == Share::kRows ? 16 : 8, RowStep(w.p));
  const int64_t rows = w.p.rows(), fewest = CeilDiv(rows, kMostSwappedRows);
  std::set<int> heights;
  for (int64_t tiles = fewest; tiles < fewest + kSwappedHeights; tiles++) {
    heights.insert(static_cast<int>(RoundUp(CeilDiv(rows, tiles), step)));
  }
  const int64_t column_tiles = CeilDiv(w.p[0].n, s.first.block_n);
  const int cluster = TilesOf(s.share);
  const int64_t widest = std::min<int64_t>(kMostSwappedRows, RoundUp(rows, step));
  for (int height :
       ColumnWidths(CeilDiv(rows, TilesM(s.share)), CeilDiv(column_tiles, TilesN(s.share)),
                    w.model.ResidentBlocks(cluster) / cluster, step, static_cast<int>(widest))) {
    heights.insert(height);
  }
  return heights;
}

void VisitSwapped(const SpaceWalk& w, Schedule s) {
  for (Share share : {Share::kNone, Share::kWeights, Share::kRows}) {
    s.share = share;
    for (int height : SwappedHeights(w, s)) {
      if (share == Share::kWeights && height >= w.p.rows()) continue;
      s.block_m = height;
      SwappedSplits(w, s);
    }
  }
}

// Weights are the 64 rows of wgmma. Not for 8 rows, where swapping lost 3 %.
void EnumerateSwapped(const SpaceWalk& w) {
  if (w.p.rows() <= 8) return;
  for (int warpgroups : {1, 2, 3}) {
    for (int sets : {1, 2}) {
      for (int block_k : w.StepsOfK()) {
        Schedule s;
        s.swapped = true;
        s.warpgroups_m = 1;
        s.warpgroups_n = warpgroups;
        s.block_k = block_k;
        s.first.block_n = 64 * warpgroups * sets;
        if (s.first.block_n - 64 < w.p[0].n) VisitSwapped(w, s);
      }
    }
  }
}

void EnumerateProducts(const SpaceWalk& w) {
  EnumeratePlain(w);
  EnumerateSwapped(w);
}

// Results that become codes are written to shared memory and read again.
double StagedUs(const MatrixProduct& p, const Schedule& s, const DeviceModel& model) {
  if (!p.epilogue.quantize.has_value()) return 0;
  const double bytes = int64_t{4} * s.block_m * s.first.block_n / s.first.split_k;
  return 2 * bytes / model.shared_bytes_per_us;
}

// Every second tile begins its rows in the middle of a sector, if a tile's columns do not fill
// whole sectors. Its stores of 64 bytes take three sectors in place of two.
double HalfSectorUs(const ProductDims& d, int64_t rows, const Schedule& s,
                    const DeviceModel& model) {
  const bool whole = int64_t{s.first.block_n} * d.result_bytes % kSectorBytes == 0;
  if (s.swapped || whole) return 0;
  return model.half_sector_loss * StoreUs(d, rows, s, s.first, model);
}

// Over several turns, where rows beyond whole bands are left, wide tiles merge loads only if these
// are so small a part of all: choices that counted on more took up to 1.3 times as long
// (docs/lab/tiles.md).
constexpr int64_t kMostlyWhole = 92;  // percent
constexpr int64_t kNarrowRows = 64;

// The share of the row tiles whose loads L2 merges: all, where all tiles run at one time, because
// the bands of the walk are about equally high. Data in two lines of L2 is not served once.
double MergedTiles(const ProductSequence& p, const Schedule& s, const ProductLoad& load) {
  if (p.rows() <= kOneTileRows || load.windows || load.codes || s.cluster > 1) return 0;
  const int64_t tiles = CeilDiv(p.rows(), s.block_m), rest = tiles % kDealtBandUnits;
  const bool even = rest <= 1 || tiles == kDealtBandUnits / 2;
  const double weights = load.weights.bytes / static_cast<double>(tiles);
  const bool dealt = load.turns == 1 || weights <= kDealtWeightBytes;
  const bool whole_lines = load.rows.straddling == 0 && load.weights.straddling == 0;
  if (!dealt || !whole_lines) return 0;
  if (even || load.turns == 1) return 1;
  const bool narrow = s.block_m == kNarrowRows && s.warpgroups_n == 1 && !s.swapped;
  if (!narrow && 100 * (tiles - rest) < kMostlyWhole * tiles) return 0;
  return static_cast<double>(tiles - rest) / static_cast<double>(tiles);
}

LevelTimes ProductTimes(const ProductSequence& p, const Schedule& s, const ProductLoad& load,
                        double stage_bytes, const DeviceModel& model) {
  LevelTimes t = TimesOf(load, s, stage_bytes, model);
  if (s.share == Share::kRows && !load.windows && !load.codes) t.hbm *= 1 + model.hbm_pair_loss;
  if (p.rows() <= kOneTileRows || load.windows || load.codes) return t;
  const auto steps = static_cast<double>(load.steps);
  t.shared -= (1 - model.ring_write_share) * steps * stage_bytes / model.shared_bytes_per_us;
  t.tensor += steps * std::max(0, kOneBehind - s.stages) * model.lone_step_us;
  if (s.first.split_k > 1) t.l2 *= model.l2_split_share;
  if (load.turns == 1 && load.busy_blocks > model.l2_even_blocks) {
    t.l2 *= model.l2_uneven_share;
    t.intake *= model.l2_uneven_share;
  }
  return t;
}

// The same of blocks in step, of which L2 serves equal loads once: all, or under windows those of
// weights, unless blocks share them or split K. `times`: out of step.
LevelTimes InStep(const LevelTimes& times, const ProductSequence& p, const Schedule& s,
                  const ProductLoad& load, double stage_bytes, const DeviceModel& model) {
  const bool apart = s.share == Share::kWeights || s.first.split_k > 1;
  if (load.windows && !apart && p.rows() > kOneTileRows) {
    ProductLoad merged = load;
    merged.weights.bytes *= model.l2_merged_share;
    return ProductTimes(p, s, merged, stage_bytes, model);
  }
  LevelTimes t = times;
  t.l2 *= 1 - MergedTiles(p, s, load) * (1 - model.l2_merged_share);
  return t;
}

Prediction PredictProduct(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  const ScheduleSizes z = SizesOf(p, s);
  const ProductDims dims = FirstDims(p, s);
  const int64_t concurrent = std::min(s.grid, model.ResidentBlocks(s.cluster));
  const ProductLoad load = LoadOf(dims, p, s, s.first, concurrent, model);
  TimeLine line;
  const double norm = p.front().epilogue.norm.has_value() ? kNormEndCycles / model.clock_mhz : 0;
  const double end = EndUs(dims, p, 0, s, s.first, model) + StagedUs(p[0], s, model) +
                     HalfSectorUs(dims, p.rows(), s, model) + norm;
  line.Fixed(model.launch_us + model.fill_us + EachTurn(end, load));
  const auto stage_bytes = static_cast<double>(z.stage_bytes);
  const LevelTimes out_of_step = ProductTimes(p, s, load, stage_bytes, model);
  const LevelTimes times = InStep(out_of_step, p, s, load, stage_bytes, model);
  line.Stream(times, load);
  line.Dsm(EachTurn(ReduceUs(dims, s, s.first, model), load),
           static_cast<double>(z.units * TilesOf(s.share)) * ReduceTraffic(dims, s, s.first));
  line.Fixed(model.drain_us);
  Prediction prediction = line.Finish();
  prediction.out_of_step_us = Combine(out_of_step) - Combine(times);
  return prediction;
}

}  // namespace

constexpr DataflowRow kProductRow = [] {
  DataflowRow row;
  row.dataflow = Dataflow::kProduct;
  row.byte = 1;
  row.name = "product";
  row.title = "one product: persistent blocks, or groups of blocks that share K or loads";
  row.products = 1;
  row.takes_units = true;
  row.swaps = true;
  row.pushes = true;
  row.permutes_weights = true;
  row.check = CheckProduct;
  row.enumerate = EnumerateProducts;
  row.predict = PredictProduct;
  return row;
}();

}  // namespace sinter
