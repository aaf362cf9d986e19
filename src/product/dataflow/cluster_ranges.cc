// Cluster ranges, dataflow (ab): `cut` clusters own ranges of N of one row tile, each as
// in a cluster exchange. Their parts of E, held in registers, are added through L2
// (inter_cluster_reduce, cooperative launch).
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/product/dataflow/cluster_family.h"
#include "src/product/schedule_check.h"

namespace sinter {
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
  row.form_of = Dataflow::kClusterExchange;
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
