// The analytical cost model: the time line of each dataflow. Every constant is a field of
// DeviceModel.
#include <algorithm>
#include <string>
#include <utility>

#include "src/product/search/fixed_costs.h"
#include "src/product/search/level_times.h"
#include "src/product/search/search.h"
#include "src/product/search/task_list.h"

namespace sinter {
namespace {

void Add(const LevelTimes& t, const ProductLoad& load, Prediction* p) {
  p->hbm_us += t.hbm;
  p->l2_us += t.l2;
  p->intake_us += t.intake;
  p->shared_us += t.shared;
  p->tensor_us += t.tensor;
  p->hbm_bytes += load.hbm_bytes;
  p->l2_bytes += load.total_bytes;
}

std::string BoundOf(const Prediction& p) {
  const std::pair<double, const char*> levels[] = {
      {p.hbm_us, "hbm"}, {p.l2_us, "l2"},         {p.intake_us, "intake"}, {p.shared_us, "shared"},
      {p.dsm_us, "dsm"}, {p.tensor_us, "tensor"}, {p.fixed_us, "latency"},
  };
  const auto* best = &levels[0];
  for (const auto& level : levels) {
    if (level.first > best->first) best = &level;
  }
  return best->second;
}

// One time line under construction: what is fixed, what went through distributed shared memory,
// what streamed.
struct TimeLine {
  Prediction p;
  double total = 0;

  void Fixed(double us) {
    p.fixed_us += us;
    total += us;
  }
  void Dsm(double us, double bytes) {
    p.dsm_us += us;
    p.dsm_bytes += bytes;
    total += us;
  }
  void Stream(const LevelTimes& t, const ProductLoad& load) {
    Add(t, load, &p);
    total += Combine(t);
  }
  Prediction Finish() {
    p.total_us = total;
    p.bound = BoundOf(p);
    return p;
  }
};

// What each of a block's tiles costs in turn, such as their ends: the consumers do nothing else
// meanwhile. That the producer loads the next tile gains little, because what bounds a stream is as
// often the consumers' shared memory.
double EachTurn(double us, const ProductLoad& load) { return us * static_cast<double>(load.turns); }

// What ends a tile of product `product`: its epilogue, and its store.
double EndUs(const ProductDims& dims, const ProductSequence& p, int product, const Schedule& s,
             const ProductTile& tile, const DeviceModel& model) {
  return StoreUs(dims, p.rows(), s, tile, model) +
         EpilogueUs(p[product].epilogue.activation(), s, tile, model);
}

Prediction PredictProduct(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  const ScheduleSizes z = SizesOf(p, s);
  const ProductDims dims = FirstDims(p, s);
  const int64_t concurrent = std::min(s.grid, model.ResidentBlocks(s.cluster));
  const ProductLoad load = LoadOf(dims, p, s, s.first, concurrent, model);
  TimeLine line;
  const double end = EndUs(dims, p, 0, s, s.first, model);
  line.Fixed(model.launch_us + model.fill_us + EachTurn(end, load));
  line.Stream(TimesOf(load, s, static_cast<double>(z.stage_bytes), model), load);
  line.Dsm(EachTurn(ReduceUs(dims, s, s.first, model), load),
           static_cast<double>(z.units * TilesOf(s.share)) * ReduceTraffic(dims, s, s.first));
  line.Fixed(model.drain_us);
  return line.Finish();
}

// Second weights already in the ring when C is ready: they load during the hand-over.
double PrefetchedUs(const ProductLoad& load, const Schedule& s, double window_us,
                    double stream_us) {
  if (load.block_bytes <= 0 || load.steps <= 0) return 0;
  const double ahead = static_cast<double>(std::min<int64_t>(s.stages, load.steps)) /
                       static_cast<double>(load.steps);
  return std::min(window_us, stream_us * ahead * load.weight_bytes / load.block_bytes);
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
  line.Stream(TimesOf(load1, s, stage, model), load1);
  const double end1 = EndUs(first, p, 0, s, s.first, model);
  line.Fixed(EachTurn(end1, load1));
  line.Dsm(EachTurn(reduce1, load1),
           static_cast<double>(z.first_tiles) * ReduceTraffic(first, s, s.first));
  // C reaches L2 as the last bytes of a kernel do, then its flag travels, then its first tiles come
  // in: only weights were there before.
  line.Fixed(model.drain_us + model.grid_barrier_us + model.fill_us);
  const LevelTimes times2 = TimesOf(load2, s, stage, model);
  line.Stream(times2, load2);
  const double window = end1 + reduce1 + model.drain_us + model.grid_barrier_us;
  line.total -= PrefetchedUs(load2, s, window, Combine(times2));
  line.Fixed(EachTurn(EndUs(second, p, 1, s, s.second, model), load2));
  line.Dsm(EachTurn(reduce2, load2),
           static_cast<double>(z.second_tiles) * ReduceTraffic(second, s, s.second));
  line.Fixed(model.drain_us);
  return line.Finish();
}

// The second product over what of C went through L2, behind `before`, the part over the slab: it
// begins once stores, their announcement and first loads are through.
void AddSpilled(const ProductSequence& p, const Schedule& s, const DeviceModel& model,
                double before, TimeLine* line) {
  if (s.slab_columns == 0) return;
  const int64_t concurrent = model.ResidentBlocks(s.cluster);
  const ProductLoad load = LoadOf(SpilledDims(p, s), p, s, s.second, concurrent, model);
  const double there = model.drain_us + model.cluster_barrier_us + model.fill_us;
  const double store = StoreUs(FirstDims(p, s), p.rows(), s, s.first, model);
  line->Fixed(EachTurn(store + std::max(0.0, there - before), load));
  line->Stream(TimesOf(load, s, static_cast<double>(SizesOf(p, s).stage_bytes), model), load);
}

Prediction PredictCluster(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  const ScheduleSizes z = SizesOf(p, s);
  const auto stage = static_cast<double>(z.stage_bytes);
  const int64_t concurrent = IsCooperative(s) ? s.grid : model.ResidentBlocks(s.cluster);
  const ProductDims dims = FirstDims(p, s), second = SecondDims(p, s);
  const ProductLoad load1 = LoadOf(dims, p, s, s.first, concurrent, model);
  const ProductLoad load2 = LoadOf(second, p, s, s.second, concurrent, model);
  TimeLine line;
  line.Fixed(model.launch_us + EachTurn(model.fill_us, load1));
  line.Stream(TimesOf(load1, s, stage, model), load1);
  // With a spatial gate two ranks' parts meet before the epilogue, which each does for half a tile.
  const ProductTile first = {s.first.block_n, GateRanks(s)};
  line.Dsm(EachTurn(ReduceUs(dims, s, first, model), load1),
           s.grid / GateRanks(s) * ReduceTraffic(dims, s, first));
  const double epilogue1 = EpilogueUs(p[0].epilogue.activation(), s, first, model);
  line.Fixed(EachTurn(epilogue1, load1));
  const double shuffle = s.cluster > 1 ? ShuffleUs(dims, s, model) : 0;
  line.Dsm(EachTurn(shuffle, load1), s.grid * ShuffleTraffic(dims, s));
  const LevelTimes times2 = TimesOf(load2, s, stage, model);
  line.Stream(times2, load2);
  const double stream2 = Combine(times2) / static_cast<double>(load1.turns);
  line.total -= EachTurn(PrefetchedUs(load2, s, epilogue1 + shuffle, stream2), load1);
  AddSpilled(p, s, model, stream2, &line);
  const double end = EndUs(second, p, 1, s, s.second, model);
  line.Fixed(EachTurn(end / s.clusters_n, load1) + PartsUs(s, model) + model.drain_us);
  line.p.l2_bytes += 2 * s.grid * PartsBytes(s);
  return line.Finish();
}

// One unit of a product that is one of a list's: what all SMs share, by the turns that the product
// lasts; what a block does, once.
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

// One product of a list: its unit's stream, its unit's end, what ranks send for all of its units.
struct ListedProduct {
  ProductLoad load;
  LevelTimes unit;
  double end_us = 0, reduce_us = 0, dsm_bytes = 0;

  double UnitUs() const { return Combine(unit) + end_us + reduce_us; }
  // Times are those of a cluster's units, bytes the chip's.
  void AddTo(TimeLine* line, int64_t units) const {
    const auto count = static_cast<double>(units);
    line->total += count * Combine(unit);
    Add(Times(count, unit), load, &line->p);
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

// The busiest cluster's units, one after another, and what it waits for C.
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

}  // namespace

Prediction Predict(const ProductSequence& sequence, const Schedule& schedule,
                   const DeviceModel& model) {
  switch (schedule.dataflow) {
    case Dataflow::kGridExchange:
      return PredictGrid(sequence, schedule, model);
    case Dataflow::kClusterExchange:
      return PredictCluster(sequence, schedule, model);
    case Dataflow::kTaskList:
      return PredictTasks(sequence, schedule, model);
    case Dataflow::kProduct:
      break;
  }
  return PredictProduct(sequence, schedule, model);
}

Prediction BehindProgrammaticEdge(Prediction prediction, const DeviceModel& model) {
  const double saved = std::min(model.programmatic_edge_us, prediction.fixed_us);
  prediction.fixed_us -= saved;
  prediction.total_us -= saved;
  prediction.bound = BoundOf(prediction);
  return prediction;
}

}  // namespace sinter
