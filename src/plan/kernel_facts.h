// KernelFacts: what the schedule of a kernel of products loads and computes: the amounts behind the
// levels of its predicted time.
#ifndef SINTER_SRC_PLAN_KERNEL_FACTS_H_
#define SINTER_SRC_PLAN_KERNEL_FACTS_H_

#include <array>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/plan/description.h"

namespace sinter {

// A level of the prediction: its name in plan texts, its time.
struct LevelTerm {
  absl::string_view name;  // "hbm", "l2", "intake", "shared", "tensor", "dsm", "fixed"
  double Prediction::*us;
};
const std::array<LevelTerm, 7>& LevelTerms();

// The load of a schedule, for the busiest block unless it says otherwise. All zero for a spec that
// CheckScheduleFields refuses.
struct KernelFacts {
  enum class Intake { kBandwidth, kStages, kRing };
  double block_bytes = 0;      // loaded through L2
  double intake_bytes = 0;     // the same, and the extra cost of rows in two cache lines
  double shared_bytes = 0;     // ring writes and operand reads
  double flop = 0;             // padded to whole tiles and 64 rows a warpgroup
  int64_t steps = 0;           // ring stages
  int64_t turns = 0;           // tiles taken one after another
  int64_t busy_blocks = 0;     // blocks with work, in the product with fewer of them
  double bytes_in_flight = 0;  // in the ring: one stage is always with the consumers
  int64_t row_reads = 0;       // times that the first product's rows are loaded: column tiles
  int64_t c_reads = 0;         // times that the second product loads C; 0 within a cluster
  int64_t weight_reads = 0;    // times that weights are loaded: row tiles
  int64_t warpgroups = 0;
  Intake intake = Intake::kBandwidth;  // what limits the intake
};
KernelFacts FactsOf(const PlannedKernel& kernel, const DeviceModel& model);

// One entry a level, in the order of LevelTerms(). Times are the prediction's; amounts follow from
// the schedule.
std::vector<LevelCost> ProductLevels(const PlannedKernel& kernel, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_KERNEL_FACTS_H_
