// Cluster slab: a cluster exchange in which the first `cut` columns of C stay in the
// cluster and the rest go through L2.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/product/dataflow/cluster_family.h"
#include "src/product/schedule_check.h"

namespace sinter {
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
  row.form_of = Dataflow::kClusterExchange;
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

}  // namespace sinter
