// The levels of a kernel's predicted time: bytes, rates and times. Times are the prediction's;
// amounts follow from the schedule.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/draw/units.h"
#include "src/explain/explain.h"
#include "src/plan/kernel_facts.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

LevelCost HbmCost(const Prediction& p, const DeviceModel& model) {
  return {"hbm", p.hbm_us, AmountText(p.hbm_bytes, "B"), RateText(model.hbm_bytes_per_us, "B"),
          "hbm_bytes_per_us"};
}

LevelCost L2Cost(const Prediction& p, const DeviceModel& model) {
  return {"l2", p.l2_us, AmountText(p.l2_bytes, "B"), RateText(model.l2_bytes_per_us, "B"),
          "l2_bytes_per_us"};
}

LevelCost IntakeCost(const Prediction& p, const KernelFacts& f, const DeviceModel& model) {
  LevelCost cost{"intake", p.intake_us, AmountText(f.block_bytes, "B") + " a block",
                 RateText(model.sm_intake_bytes_per_us, "B") + " an SM", "sm_intake_bytes_per_us"};
  if (f.intake == KernelFacts::Intake::kStages) {
    cost.amount = absl::StrCat(Counted(static_cast<uint64_t>(f.steps), "stage"), " a block");
    cost.rate = absl::StrCat(model.stage_us, " us a stage");
    cost.constant = "stage_us";
  } else if (f.intake == KernelFacts::Intake::kRing) {
    absl::StrAppend(&cost.amount, ", ", SizeText(f.bytes_in_flight), " in flight");
    cost.rate = absl::StrCat(model.fill_us, " us a turn of the ring");
    cost.constant = "fill_us";
  }
  return cost;
}

LevelCost SharedCost(const Prediction& p, const KernelFacts& f, const DeviceModel& model) {
  return {"shared", p.shared_us, AmountText(f.shared_bytes, "B") + " a block",
          RateText(model.shared_bytes_per_us, "B") + " an SM", "shared_bytes_per_us"};
}

LevelCost TensorCost(const Prediction& p, const KernelFacts& f, const DeviceModel& model) {
  const double rate = model.tensor_flop_per_us / std::max(1, model.sm_count);
  LevelCost cost{"tensor", p.tensor_us, AmountText(f.flop, "FLOP") + " a block",
                 RateText(rate, "FLOP") + " an SM", "tensor_flop_per_us"};
  if (f.warpgroups == 1) absl::StrAppend(&cost.rate, ", lone warpgroup");
  return cost;
}

LevelCost DsmCost(const Prediction& p, int cluster, const DeviceModel& model) {
  const int index = std::max(0, ClusterIndex(cluster));
  LevelCost cost{"dsm", p.dsm_us, "", "", "dsm_bytes_per_us"};
  if (p.dsm_bytes <= 0) return cost;
  cost.amount = AmountText(p.dsm_bytes, "B");
  cost.rate = absl::StrCat(RateText(model.dsm_bytes_per_us[static_cast<size_t>(index)], "B"),
                           " in clusters of ", cluster);
  return cost;
}

LevelCost FixedCost(const Prediction& p, const Schedule& s) {
  const char* waits = RangesOf(s) > 1 ? "partial sums of out, " : WritesC(s) ? "hand-over, " : "";
  return {"fixed", p.fixed_us, absl::StrCat("launch, fill, ", waits, "stores, drain"), "",
          IsCooperative(s) ? "launch_us fill_us grid_barrier_us drain_us"
                           : "launch_us fill_us drain_us"};
}

std::vector<LevelCost> ProductLevels(const PlannedKernel& kernel, const DeviceModel& model) {
  const Prediction& p = kernel.prediction;
  const KernelFacts f = FactsOf(kernel, model);
  const Schedule& s = kernel.spec.schedule;
  std::vector<LevelCost> levels = {HbmCost(p, model),       L2Cost(p, model),
                                   IntakeCost(p, f, model), SharedCost(p, f, model),
                                   TensorCost(p, f, model), DsmCost(p, s.cluster, model),
                                   FixedCost(p, s)};
  for (LevelCost& level : levels) {
    level.bound = level.level == p.bound;
  }
  return levels;
}

std::vector<LevelCost> StitchLevels(const PlannedKernel& kernel, const StitchTerms& times,
                                    const DeviceModel& model) {
  const Prediction& p = kernel.prediction;
  std::vector<LevelCost> levels = {HbmCost(p, model)};
  if (p.l2_us > 0) levels.push_back(L2Cost(p, model));
  if (times.known) {
    levels.push_back({"issue", times.issue_us, "instructions", "", "clock_mhz"});
    levels.push_back({"latency", times.latency_us, "first reads, joins, turns of blocks", "",
                      "sm_intake_bytes_per_us cluster_barrier_us"});
  }
  for (LevelCost& level : levels) level.bound = level.level == p.bound;
  const char* overlap = times.known ? "the above, which overlap" : "bytes, instructions and waits";
  levels.push_back({"together", p.total_us - p.fixed_us, overlap, "", ""});
  levels.push_back({"fixed", p.fixed_us, "launch, and what no other block hides", "",
                    "launch_us grid_barrier_us behind_codes_us"});
  return levels;
}

}  // namespace

std::vector<LevelCost> LevelsOf(const PlannedKernel& kernel, const StitchTerms& times,
                                const DeviceModel& model) {
  return kernel.spec.stitch == nullptr ? ProductLevels(kernel, model)
                                       : StitchLevels(kernel, times, model);
}

}  // namespace sinter
