// Task list, dataflow (e): persistent clusters walk one list of tiles: all of C, then all of E. C
// goes through L2 and is read a few columns at a time as they are ready.

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/dataflow/time_line.h"
#include "src/product/schedule_check.h"
#include "src/product/search/space.h"

namespace sinter {
namespace {

constexpr int64_t kLeastListRows = 129;  // fewer rows do not make two row tiles of 128
constexpr int kListStep = 16;  // step of tile widths: both products' widths are tried together

// A cluster takes one unit at a time in both products. Blocks that share loads move through the
// ring together, so ranks that share K must have equal parts of it.
absl::Status CheckListed(const Schedule& s, const char* name, const ProductTile& tile, Share share,
                         int64_t k) {
  if (s.cluster != TilesOf(share) * tile.split_k) {
    return RefuseSchedule("cluster", s.cluster,
                          absl::StrCat("is not ", name, ".split_k ", tile.split_k, " for each of ",
                                       TilesOf(share), " tiles"));
  }
  const bool pairs = TilesOf(s.share) * TilesOf(s.second_share) > 1;
  const int64_t steps = CeilDiv(k, s.block_k);
  if (!pairs || steps % tile.split_k == 0) return absl::OkStatus();
  return RefuseSchedule(
      absl::StrCat(name, ".split_k"), tile.split_k,
      absl::StrCat("does not divide the ", steps, " steps of K, with pairs of blocks"));
}

absl::Status CheckTasks(const ProductSequence& p, const Schedule& s, const ScheduleSizes&) {
  SINTER_RETURN_IF_ERROR(CheckListed(s, "first", s.first, s.share, p[0].StagedK()));
  return CheckListed(s, "second", s.second, s.second_share, p[0].n);
}

// How the blocks of a cluster work together on a unit.
struct Grouping {
  Share share;
  int split_k;
  int Blocks() const { return TilesOf(share) * split_k; }
};
constexpr Grouping kGroupings[] = {
    {Share::kNone, 1}, {Share::kNone, 2}, {Share::kWeights, 1}, {Share::kRows, 1}};

// From a third of the widest tile to the widest. Of the widths that give equally many tiles, the
// narrowest.
std::vector<int> ListWidths(const SpaceWalk& w, const RowShape& r, int64_t columns, int width,
                            Share share) {
  const int step = std::max(ColumnStep(w.p, r), kListStep * r.warpgroups_n);
  const int widest = WidestTile(CeilDiv(columns, TilesN(share)), width, step, r);
  std::vector<int> widths;
  int64_t tiles = 0;
  for (int block_n = std::max(step, widest / 3 / step * step); block_n <= widest; block_n += step) {
    const int64_t now = CeilDiv(columns, block_n);
    if (now != tiles) widths.push_back(block_n);
    tiles = now;
  }
  return widths;
}

void VisitLists(const SpaceWalk& w, const RowShape& r, Schedule s, const Grouping& one,
                const Grouping& two) {
  s.cluster = one.Blocks();
  s.share = one.share;
  s.second_share = two.share;
  const int64_t resident = w.model.ResidentBlocks(s.cluster);
  for (int width1 : ListWidths(w, r, w.p[0].n, w.p[0].Width(), one.share)) {
    for (int width2 : ListWidths(w, r, w.p[1].n, 1, two.share)) {
      s.first = {width1, one.split_k};
      s.second = {width2, two.split_k};
      s.grid = static_cast<int>(std::min(SizesOf(w.p, s).units * s.cluster, resident));
      w.Visit(s);
    }
  }
}

// Needs at least two row tiles of at least 64 rows: fewer leave no list to balance.
void EnumerateTasks(const SpaceWalk& w) {
  if (w.p.rows() < kLeastListRows) return;
  w.ForEachShape(Dataflow::kTaskList, [&](const RowShape& r, const Schedule& s) {
    if (r.block_m < 64) return;
    for (const Grouping& one : kGroupings) {
      for (const Grouping& two : kGroupings) {
        if (one.Blocks() == two.Blocks()) VisitLists(w, r, s, one, two);
      }
    }
  });
}

// Time of one unit of a product. Levels that all SMs share are divided by the rounds of the
// product; levels of an SM are divided by the turns of a block.
LevelTimes UnitTimes(const ProductLoad& load, const Schedule& s, double stage_bytes,
                     const DeviceModel& model) {
  LevelTimes t = TimesOf(load, s, stage_bytes, model);
  const auto turns = static_cast<double>(load.turns);
  const double lasts =
      std::max(1.0, static_cast<double>(load.units) / static_cast<double>(load.groups));
  t.hbm /= lasts, t.l2 /= lasts;
  t.intake /= turns, t.shared /= turns, t.tensor /= turns;
  return t;
}

LevelTimes Times(double count, LevelTimes t) {
  for (double* us : {&t.hbm, &t.l2, &t.intake, &t.shared, &t.tensor}) *us *= count;
  return t;
}

// One product of a list: the stream and the end of one unit, and the DSM bytes of all its units.
struct ListedProduct {
  ProductLoad load;
  LevelTimes unit;
  double end_us = 0, reduce_us = 0, dsm_bytes = 0;

  double UnitUs() const { return Combine(unit) + end_us + reduce_us; }
  // Adds the time of a cluster's `units`, and the bytes of the whole chip.
  void AddTo(TimeLine* line, int64_t units) const {
    const auto count = static_cast<double>(units);
    line->total += count * Combine(unit);
    line->Levels(Times(count, unit), load);
    line->Fixed(count * end_us);
    line->Dsm(count * reduce_us, dsm_bytes);
  }
};

ListedProduct ListedOf(const ProductDims& dims, const ProductSequence& p, int product,
                       const Schedule& s, const ProductTile& tile, const DeviceModel& model) {
  ListedProduct listed;
  listed.load = LoadOf(dims, p, s, tile, s.grid, model);
  listed.unit = UnitTimes(listed.load, s, static_cast<double>(SizesOf(p, s).stage_bytes), model);
  listed.end_us = EndUs(dims, p, product, s, tile, model);
  listed.reduce_us = ReduceUs(dims, s, tile, model);
  listed.dsm_bytes =
      static_cast<double>(listed.load.units * TilesOf(dims.share)) * ReduceTraffic(dims, s, tile);
  return listed;
}

// The busiest cluster runs its units one after another and waits for C between the products.
Prediction PredictTasks(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  const ListedProduct one = ListedOf(FirstDims(p, s), p, 0, s, s.first, model);
  const ListedProduct two = ListedOf(SecondDims(p, s), p, 1, s, s.second, model);
  const int64_t clusters = s.grid / s.cluster;
  const TaskTimes times{one.UnitUs(), two.UnitUs(),
                        model.drain_us + model.grid_barrier_us + model.fill_us};
  TimeLine longest;
  for (const TaskCounts& c : BusiestClusters(one.load.units, two.load.units, clusters)) {
    TimeLine line;
    line.Fixed(model.launch_us + model.fill_us);
    one.AddTo(&line, c.first);
    line.Fixed(WaitUs(c, one.load.units, clusters, times));
    two.AddTo(&line, c.second);
    line.Fixed(model.drain_us);
    if (line.total > longest.total) longest = line;
  }
  return longest.Finish();
}

// Units of `units` that cluster `c` takes; cluster 0 takes the first one.
int64_t Taken(int64_t units, int64_t c, int64_t clusters) {
  return units / clusters + (c < units % clusters ? 1 : 0);
}

}  // namespace

constexpr DataflowRow kTaskListRow = [] {
  DataflowRow row;
  row.dataflow = Dataflow::kTaskList;
  row.name = "task-list";
  row.title = "persistent clusters walk one list of tiles: all of c, then all of out";
  row.how = "as columns come";
  row.medium = Medium::kL2;
  row.offered = Offered::kTuning;
  row.cooperative = true;
  row.writes_c = true;
  row.unit_products = 2;
  row.most_residual_accumulators = 112;
  row.check = CheckTasks;
  row.enumerate = EnumerateTasks;
  row.predict = PredictTasks;
  return row;
}();

std::array<TaskCounts, 2> BusiestClusters(int64_t first_units, int64_t second_units,
                                          int64_t clusters) {
  const int64_t second_begins = first_units % clusters;
  const auto counts = [&](int64_t c) {
    const int64_t behind = (c + clusters - second_begins) % clusters;
    return TaskCounts{Taken(first_units, c, clusters), Taken(second_units, behind, clusters)};
  };
  return {counts(0), counts(second_begins)};
}

double WaitUs(const TaskCounts& cluster, int64_t first_units, int64_t clusters,
              const TaskTimes& times) {
  if (cluster.second == 0) return 0;
  const int64_t turns = (first_units + clusters - 1) / clusters;
  const double arrives = static_cast<double>(cluster.first) * times.first_us;
  double wait = 0;
  for (int64_t turn = std::max<int64_t>(1, turns - 1); turn <= turns; turn++) {
    const double there = static_cast<double>(turn) * times.first_us + times.hand_over_us;
    const double before = static_cast<double>((turn - 1) * clusters) /
                          static_cast<double>(std::max<int64_t>(1, first_units));
    wait = std::max(wait, there - arrives - before * times.second_us);
  }
  return wait;
}

}  // namespace sinter
