// Grid exchange, dataflow (d): persistent blocks. C goes through L2; a reader waits for the tiles
// of C that it needs, and the second product's weights load before that.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/schedule_check.h"
#include "src/product/search/space.h"

namespace sinter {
namespace {

absl::Status CheckGrid(const ProductSequence&, const Schedule& s, const ScheduleSizes&) {
  const int want = std::max(s.first.split_k, s.second.split_k);
  if (s.cluster == want) return absl::OkStatus();
  return RefuseSchedule("cluster", s.cluster, absl::StrCat("is not the larger split_k ", want));
}

void VisitGrids(const SpaceWalk& w, Schedule s, const RowShape& r, int split1, int split2) {
  s.cluster = std::max(split1, split2);
  const int64_t n = w.p[0].n, l = w.p[1].n, resident = w.model.ResidentBlocks(s.cluster);
  const auto second = w.Tiles(r, s, l, 1, split2);
  for (const ProductTile& one : w.Tiles(r, s, n, w.p[0].Width(), split1)) {
    for (const ProductTile& two : second) {
      const int64_t busy = w.RowTiles(r) * std::max(CeilDiv(n, one.block_n) * split1,
                                                    CeilDiv(l, two.block_n) * split2);
      s.first = one;
      s.second = two;
      s.grid = static_cast<int>(std::min(RoundUp(busy, s.cluster), resident));
      w.Visit(s);
    }
  }
}

void EnumerateGrid(const SpaceWalk& w) {
  w.ForEachShape(Dataflow::kGridExchange, [&](const RowShape& r, const Schedule& s) {
    for (int split1 : SpaceWalk::kSplits) {
      for (int split2 : SpaceWalk::kSplits) VisitGrids(w, s, r, split1, split2);
    }
  });
}

Prediction PredictGrid(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  const ScheduleSizes z = SizesOf(p, s);
  const auto stage = static_cast<double>(z.stage_bytes);
  const ProductDims first = FirstDims(p, s), second = SecondDims(p, s);
  const ProductLoad load1 = LoadOf(first, p, s, s.first, s.grid, model);
  const ProductLoad load2 = LoadOf(second, p, s, s.second, s.grid, model);
  const double reduce1 = ReduceUs(first, s, s.first, model);
  const double reduce2 = ReduceUs(second, s, s.second, model);
  TimeLine line;
  line.Fixed(model.launch_us + model.fill_us);
  const LevelTimes times1 = TimesOf(load1, s, stage, model);
  line.Stream(times1, load1);
  const double end1 = EndUs(first, p, 0, s, s.first, model);
  line.Fixed(EachTurn(end1, load1));
  line.Dsm(EachTurn(reduce1, load1),
           static_cast<double>(z.first_tiles) * ReduceTraffic(first, s, s.first));
  // C is stored to L2, then its flag is set, then a reader loads its first tiles of C. The ring
  // held only weights before.
  line.Fixed(model.drain_us + model.grid_barrier_us + model.fill_us);
  const LevelTimes times2 = TimesOf(load2, s, stage, model);
  line.Stream(times2, load2);
  const double window = end1 + reduce1 + model.drain_us + model.grid_barrier_us;
  line.total -= SpareHbm(times1) * PrefetchedUs(load2, s, window, Combine(times2));
  line.Fixed(EachTurn(EndUs(second, p, 1, s, s.second, model), load2));
  line.Dsm(EachTurn(reduce2, load2),
           static_cast<double>(z.second_tiles) * ReduceTraffic(second, s, s.second));
  line.Fixed(model.drain_us);
  return line.Finish();
}

}  // namespace

constexpr DataflowRow kGridExchangeRow = [] {
  DataflowRow row;
  row.dataflow = Dataflow::kGridExchange;
  row.byte = 2;
  row.name = "grid-exchange";
  row.title = "persistent blocks: c goes through L2, w2 loads while c is under way";
  row.how = "ready flags";
  row.medium = Medium::kL2;
  row.cooperative = true;
  row.writes_c = true;
  row.check = CheckGrid;
  row.enumerate = EnumerateGrid;
  row.predict = PredictGrid;
  return row;
}();

}  // namespace sinter
