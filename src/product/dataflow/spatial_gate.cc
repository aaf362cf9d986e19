// Spatial gate: a cluster exchange in which one of two neighbouring ranks computes gate and the
// other up. dsm_reduce_scatter (Mul) joins them.
#include "absl/strings/str_cat.h"
#include "src/product/dataflow/cluster_family.h"
#include "src/product/schedule_check.h"

namespace sinter {
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
  row.form_of = Dataflow::kClusterExchange;
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

}  // namespace sinter
