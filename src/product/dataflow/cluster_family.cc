#include "src/product/dataflow/cluster_family.h"

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/product/schedule_check.h"

namespace sinter {
namespace {

double DsmBytes(const ProductDims& d, const Schedule& s, double columns) {
  return static_cast<double>(d.result_bytes) * s.block_m * columns;
}

// dsm_shuffle: each block sends its columns of C, the result of `d`, to every peer, then one
// barrier. A block alone stores them in its own memory.
double ShuffleUs(const ProductDims& d, const Schedule& s, double columns,
                 const DeviceModel& model) {
  if (s.cluster == 1)
    return DsmBytes(d, s, columns) * model.sm_count / model.own_exchange_bytes_per_us;
  // Column groups go four at a time as 16-byte stores. The rest of a warpgroup's columns go as
  // 4-byte stores, each of which costs as much.
  const int groups = s.first.block_n / s.warpgroups_n / 8;
  const double stores = 1.0 * (groups / 4 * 4 + groups % 4 * 4) / groups;
  return stores * (DsmBytes(d, s, columns) * (s.cluster - 1)) / DsmBytesPerUs(s.cluster, model) +
         model.cluster_barrier_us;
}

}  // namespace

int64_t KeepsAll(const ProductSequence& p, const Schedule&) { return p[0].n; }

absl::Status CheckCluster(const ProductSequence& p, const Schedule& s, const ScheduleSizes& z) {
  const int ranges = RangesOf(s), ranks = GateRanks(s);
  if (s.first.split_k != 1) return RefuseSchedule("first.split_k", s.first.split_k, "is not 1");
  if (s.second.split_k != 1) return RefuseSchedule("second.split_k", s.second.split_k, "is not 1");
  if (int64_t{s.first.block_n} * s.cluster / ranks * ranges < p[0].n) {
    return RefuseSchedule(
        "first.block_n", s.first.block_n,
        absl::StrCat(
            "times the cluster of ", s.cluster, ranks > 1 ? " in pairs" : "",
            ranges > 1 ? absl::StrCat(" times ", RowOf(s).cut, " ", ranges) : std::string(),
            " is below n ", p[0].n));
  }
  if (int64_t{s.second.block_n} * s.cluster < p[1].n) {
    return RefuseSchedule("second.block_n", s.second.block_n,
                          absl::StrCat("times the cluster of ", s.cluster, " is below l ", p[1].n));
  }
  const int64_t want = z.row_tiles * ranges * s.cluster;
  if (s.grid == want) return absl::OkStatus();
  return RefuseSchedule(
      "grid", s.grid,
      absl::StrCat("is not row tiles * cluster ",
                   ranges > 1 ? absl::StrCat("* ", RowOf(s).cut, " ") : "", "= ", want));
}

void ForEachCluster(const SpaceWalk& w, Dataflow dataflow,
                    const std::function<void(const Schedule&)>& visit) {
  w.ForEachShape(dataflow, [&](const RowShape& r, Schedule s) {
    for (int cluster : kClusterSizes) {
      if (cluster < GateRanks(s)) continue;
      const int step = ColumnStep(w.p, r);
      const int64_t first = RoundUp(CeilDiv(w.p[0].n, cluster / GateRanks(s)), step);
      const int64_t second = RoundUp(CeilDiv(w.p[1].n, cluster), step);
      if (first > WidestTile(first, FirstWidth(w.p, s), step, r)) continue;
      if (second > WidestTile(second, 1, step, r)) continue;
      s.cluster = cluster;
      s.grid = static_cast<int>(w.RowTiles(r) * cluster);
      s.first = {static_cast<int>(first), 1};
      s.second = {static_cast<int>(second), 1};
      visit(s);
    }
  });
}

ClusterLine ClusterLineOf(const ProductSequence& p, const Schedule& s,
                          const ShuffledColumns& shuffled, const DeviceModel& model) {
  const auto stage = static_cast<double>(SizesOf(p, s).stage_bytes);
  const int64_t concurrent = IsCooperative(s) ? s.grid : model.ResidentBlocks(s.cluster);
  const ProductDims dims = FirstDims(p, s), second = SecondDims(p, s);
  const ProductLoad load2 = LoadOf(second, p, s, s.second, concurrent, model);
  ClusterLine out;
  out.first = LoadOf(dims, p, s, s.first, concurrent, model);
  TimeLine& line = out.line;
  line.Fixed(model.launch_us + EachTurn(model.fill_us, out.first));
  const LevelTimes times1 = TimesOf(out.first, s, stage, model);
  line.Stream(times1, out.first);
  // With a spatial gate each rank has one matrix. The ranks exchange their parts before the
  // epilogue, and each runs the epilogue for its share of the tile's rows.
  const ProductTile first = {s.first.block_n, GateRanks(s)};
  line.Dsm(EachTurn(ReduceUs(dims, s, first, model), out.first),
           s.grid / GateRanks(s) * ReduceTraffic(dims, s, first));
  const double epilogue1 = EpilogueUs(p[0], s, first, model);
  line.Fixed(EachTurn(epilogue1, out.first));
  const double shuffle = ShuffleUs(dims, s, shuffled.most, model);
  line.Dsm(EachTurn(shuffle, out.first),
           s.cluster == 1 ? 0 : s.grid * (DsmBytes(dims, s, shuffled.mean) * s.cluster));
  const LevelTimes times2 = TimesOf(load2, s, stage, model);
  line.Stream(times2, load2);
  out.stream2_us = Combine(times2) / static_cast<double>(out.first.turns);
  const double ahead = PrefetchedUs(load2, s, epilogue1 + shuffle, out.stream2_us);
  line.total -= SpareHbm(times1) * EachTurn(ahead, out.first);
  out.end_us = EndUs(second, p, 1, s, s.second, model);
  return out;
}

ClusterLine ClusterLineOf(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  const double columns = s.first.block_n / GateRanks(s);
  return ClusterLineOf(p, s, {columns, columns}, model);
}

Prediction PredictCluster(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  ClusterLine c = ClusterLineOf(p, s, model);
  c.line.Fixed(EachTurn(c.end_us, c.first) + model.drain_us);
  return c.line.Finish();
}

}  // namespace sinter
