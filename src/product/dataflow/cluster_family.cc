// Dataflows in which a cluster owns a row tile: C, or a range of it, stays in the cluster; each
// block has its own columns of C and of E.
#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/schedule_check.h"
#include "src/product/search/space.h"

namespace sinter {
namespace {

// Columns of C that a block sends to its peers: the most, and the mean over the cluster.
struct ShuffledColumns {
  double most = 0, mean = 0;
};

// A time line up to the store of E.
struct ClusterLine {
  TimeLine line;
  ProductLoad first;  // of the first product
  double stream2_us;  // of the second product over the C that the cluster keeps, for one turn
  double end_us;      // of a tile of E
};

double DsmBytes(const ProductDims& d, const Schedule& s, double columns) {
  return static_cast<double>(d.result_bytes) * s.block_m * columns;
}

// dsm_shuffle: each block sends its columns of C, the result of `d`, to every peer, then one
// barrier. A cluster of one block stores them in its own memory.
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

int64_t KeepsAll(const ProductSequence& p, const Schedule&) { return p[0].n; }

// The cluster's columns must cover N and L, and the grid must be one cluster for each row tile, or
// for each range of one.
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

// Visits every row shape and cluster size with the columns of a block; skips tiles that are too
// wide.
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

// For dataflows that shuffle every column of C.
ClusterLine ClusterLineOf(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  const double columns = s.first.block_n / GateRanks(s);
  return ClusterLineOf(p, s, {columns, columns}, model);
}

Prediction PredictCluster(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  ClusterLine c = ClusterLineOf(p, s, model);
  c.line.Fixed(EachTurn(c.end_us, c.first) + model.drain_us);
  return c.line.Finish();
}

// The fields that their rows have in common.
constexpr DataflowRow ClusterRow() {
  DataflowRow row;
  row.byte = 3;
  row.how = "dsm_shuffle";
  row.medium = Medium::kDsm;
  row.cluster_owns_rows = true;
  row.kept_columns = KeepsAll;
  row.check = CheckCluster;
  row.predict = PredictCluster;
  return row;
}

// Cluster exchange, dataflow (b): a cluster owns a row tile and all of N. Each block sends its
// columns of C to every peer through distributed shared memory.
void EnumerateClusters(const SpaceWalk& w) {
  ForEachCluster(w, Dataflow::kClusterExchange, [&](const Schedule& s) { w.Visit(s); });
}

}  // namespace

constexpr DataflowRow kClusterExchangeRow = [] {
  DataflowRow row = ClusterRow();
  row.dataflow = Dataflow::kClusterExchange;
  row.name = "cluster-exchange";
  row.title = "a cluster owns a row tile and all of n: c stays inside the cluster";
  row.enumerate = EnumerateClusters;
  return row;
}();

// Cluster slab: a cluster exchange in which the first `cut` columns of C stay in the
// cluster and the rest go through L2.

namespace {

int64_t KeepsSlab(const ProductSequence&, const Schedule& s) { return s.cut; }

// The slab is whole stages of the second product, and neither it nor the rest is empty.
absl::Status CheckSlab(const ProductSequence& p, const Schedule& s, const ScheduleSizes& z) {
  if (s.cut < 1 || s.cut >= p[0].n || s.cut % s.block_k != 0) {
    return RefuseSchedule(
        "slab", s.cut,
        absl::StrCat("is not a multiple of block_k ", s.block_k, " below n ", p[0].n));
  }
  if (s.cluster == 1) return RefuseSchedule("cluster", 1, "is not above 1 in cluster-slab");
  return CheckCluster(p, s, z);
}

// Tries slabs of a quarter, half and three quarters of C.
void EnumerateSlabs(const SpaceWalk& w) {
  constexpr int kQuarters = 4;
  ForEachCluster(w, Dataflow::kClusterSlab, [&](Schedule s) {
    if (s.cluster == 1) return;
    for (int64_t quarter = 1, last = 0; quarter < kQuarters; ++quarter) {
      const int64_t columns = w.p[0].n * quarter / kQuarters / s.block_k * s.block_k;
      if (columns == last) continue;
      s.cut = static_cast<int>(last = columns);
      w.Visit(s);
    }
  });
}

// The second product over the C in L2 begins once the stores are done, announced by a barrier, and
// loaded.
Prediction PredictSlab(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  const double most = std::min(s.first.block_n, s.cut), mean = 1.0 * s.cut / s.cluster;
  ClusterLine c = ClusterLineOf(p, s, {most, mean}, model);
  const ProductLoad load =
      LoadOf(RestDims(p, s), p, s, s.second, model.ResidentBlocks(s.cluster), model);
  const double there = model.drain_us + model.cluster_barrier_us + model.fill_us;
  const double store = StoreUs(FirstDims(p, s), p.rows(), s, s.first, model);
  c.line.Fixed(EachTurn(store + std::max(0.0, there - c.stream2_us), load));
  c.line.Stream(TimesOf(load, s, static_cast<double>(SizesOf(p, s).stage_bytes), model), load);
  c.line.Fixed(EachTurn(c.end_us, c.first) + model.drain_us);
  return c.line.Finish();
}

}  // namespace

constexpr DataflowRow kClusterSlabRow = [] {
  DataflowRow row = ClusterRow();
  row.dataflow = Dataflow::kClusterSlab;
  row.name = "cluster-slab";
  row.version = 5;
  row.cut = "slab";
  row.cut_constant = "kSlabColumns";
  row.title =
      "a cluster owns a row tile and all of n: some of c stays inside, the rest goes through L2";
  row.offered = Offered::kTuning;
  row.writes_c = true;
  row.kept_columns = KeepsSlab;
  row.check = CheckSlab;
  row.enumerate = EnumerateSlabs;
  row.predict = PredictSlab;
  return row;
}();

// Spatial gate: a cluster exchange in which one of two neighbouring ranks computes gate and the
// other up. dsm_reduce_scatter (Mul) joins them.

namespace {

constexpr int kId = static_cast<int>(Dataflow::kSpatialGate);

absl::Status CheckSpatialGate(const ProductSequence& p, const Schedule& s, const ScheduleSizes& z) {
  if (!p[0].pair) return RefuseSchedule("dataflow", kId, "(spatial-gate) needs a gate");
  if (s.cluster == 1) return RefuseSchedule("cluster", 1, "is not above 1 in spatial-gate");
  if (p[0].StagedK() <= s.block_k) {
    return RefuseSchedule(
        "block_k", s.block_k,
        absl::StrCat("takes k ", p[0].StagedK(), " in one step, in spatial-gate"));
  }
  return CheckCluster(p, s, z);
}

void EnumerateSpatialGates(const SpaceWalk& w) {
  if (!w.p[0].pair) return;
  ForEachCluster(w, Dataflow::kSpatialGate, [&](const Schedule& s) { w.Visit(s); });
}

}  // namespace

constexpr DataflowRow kSpatialGateRow = [] {
  DataflowRow row = ClusterRow();
  row.dataflow = Dataflow::kSpatialGate;
  row.name = "spatial-gate";
  row.version = 7;
  row.title =
      "a cluster owns a row tile and all of n: gate and up apart, joined in pairs of its blocks";
  row.how = "dsm_reduce_scatter\ndsm_shuffle";
  row.offered = Offered::kTuning;
  row.gate_ranks = 2;
  row.check = CheckSpatialGate;
  row.enumerate = EnumerateSpatialGates;
  return row;
}();

// Cluster ranges, dataflow (ab): `cut` clusters own ranges of N of one row tile, each as
// in a cluster exchange. Their parts of E, held in registers, are added through L2
// (inter_cluster_reduce, cooperative launch).

namespace {

// Blocks that the header of the flags has a word for: kMaxGrid of the device library.
constexpr int kMostFlaggedBlocks = 240;
constexpr int64_t kMostRanges = 16;  // tried by the search: more parts of E were never faster

int64_t KeepsRange(const ProductSequence&, const Schedule& s) {
  return int64_t{s.cluster} * s.first.block_n;
}

// Each block adds its share of a tile of E, in units of 16 bytes. Ring and slab must hold that
// share of all parts.
absl::Status CheckParts(const Schedule& s, const ScheduleSizes& z) {
  const int64_t units = int64_t{s.block_m} * s.second.block_n / 4;
  if (s.cut > units) {
    return RefuseSchedule("ranges", s.cut,
                          absl::StrCat("is above the ", units, " shares of a tile of out"));
  }
  const int64_t taken = CeilDiv(units, s.cut) * 16 * s.cut;
  const int64_t room = s.stages * z.stage_bytes + z.kept_bytes;
  if (taken <= room) return absl::OkStatus();
  return RefuseSchedule(
      "partial_out", taken,
      absl::StrCat("bytes are above the ", room, " of ring and slab that take them"));
}

// Ranges are whole stages of the second product; none is empty.
absl::Status CheckRanges(const ProductSequence& p, const Schedule& s, const ScheduleSizes& z) {
  if (p.back().AuxResults() > 0) {
    return RefuseSchedule("ranges", s.cut,
                          "are not possible where the epilogue stores auxiliary results: take "
                          "cluster-exchange");
  }
  if (s.cut < 2 || s.cut > kMostFlaggedBlocks) {
    return RefuseSchedule("ranges", s.cut, absl::StrCat("is not in 2..", kMostFlaggedBlocks));
  }
  const int64_t range = KeepsRange(p, s);
  if (range % s.block_k != 0) {
    return RefuseSchedule("first.block_n", s.first.block_n,
                          absl::StrCat("times the cluster of ", s.cluster,
                                       " is not a multiple of block_k ", s.block_k));
  }
  if (range * (s.cut - 1) >= p[0].n) {
    return RefuseSchedule("ranges", s.cut,
                          absl::StrCat("leaves a cluster without a column of n ", p[0].n));
  }
  SINTER_RETURN_IF_ERROR(CheckParts(s, z));
  if (s.grid > kMostFlaggedBlocks) {
    return RefuseSchedule("grid", s.grid,
                          absl::StrCat("is above the ", kMostFlaggedBlocks, " blocks that greet"));
  }
  return CheckCluster(p, s, z);
}

void VisitRanges(const SpaceWalk& w, const RowShape& r, Schedule s) {
  const int step = ColumnStep(w.p, r);
  const int64_t second = RoundUp(CeilDiv(w.p[1].n, s.cluster), step);
  if (second > WidestTile(second, 1, step, r)) return;
  // The columns of a block are a multiple of this, so that a cluster's are whole stages.
  const int64_t whole = std::lcm<int64_t>(step, s.block_k / std::gcd(s.block_k, s.cluster));
  const int64_t resident = w.model.ResidentBlocks(s.cluster) / s.cluster / w.RowTiles(r);
  int64_t last = 0;
  for (int64_t clusters = 2; clusters <= std::min(resident, kMostRanges); clusters++) {
    const int64_t first = RoundUp(CeilDiv(w.p[0].n, clusters * s.cluster), whole);
    if (first == last || first > WidestTile(first, w.p[0].Width(), step, r)) continue;
    last = first;
    s.cut = static_cast<int>(CeilDiv(w.p[0].n, first * s.cluster));
    if (s.cut < 2) continue;
    s.grid = static_cast<int>(w.RowTiles(r) * s.cut * s.cluster);
    s.first = {static_cast<int>(first), 1};
    s.second = {static_cast<int>(second), 1};
    w.Visit(s);
  }
}

// Balances N as whole columns and stages allow, for every number of clusters that is resident at
// once.
void EnumerateRanges(const SpaceWalk& w) {
  w.ForEachShape(Dataflow::kClusterRanges, [&](const RowShape& r, Schedule s) {
    for (int cluster : kClusterSizes) {
      s.cluster = cluster;
      VisitRanges(w, r, s);
    }
  });
}

// inter_cluster_reduce: a block stores its part of E to L2, sets its flag, waits for the other
// flags, loads its share of all parts and adds them. Both ways at L2's rate for f32 sums: 110
// kernels, rms of ln 0.06 in all.
double PartsUs(const Schedule& s, double moved, const DeviceModel& model) {
  return moved / model.reduce_bytes_per_us + model.drain_us + model.grid_barrier_us +
         model.reduce_us;
}

Prediction PredictRanges(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  ClusterLine c = ClusterLineOf(p, s, model);
  const auto moved = static_cast<double>(2 * SizesOf(p, s).partial_out_bytes);
  c.line.Fixed(EachTurn(c.end_us / s.cut, c.first) + PartsUs(s, moved, model) + model.drain_us);
  c.line.p.l2_bytes += moved;
  return c.line.Finish();
}

}  // namespace

constexpr DataflowRow kClusterRangesRow = [] {
  DataflowRow row = ClusterRow();
  row.dataflow = Dataflow::kClusterRanges;
  row.name = "cluster-ranges";
  row.version = 3;
  row.cut = "ranges";
  row.title =
      "clusters own ranges of n of a row tile: c stays inside, partial sums of out are added "
      "through L2";
  row.offered = Offered::kTuning;
  row.cooperative = true;
  row.ranges = true;
  row.kept_columns = KeepsRange;
  row.check = CheckRanges;
  row.enumerate = EnumerateRanges;
  row.predict = PredictRanges;
  return row;
}();

}  // namespace sinter
