// A kernel's predicted cost for people: the bytes of each memory level, their rate and their time.
// Times are the prediction's; amounts follow from the schedule.
#ifndef SINTER_SRC_PLAN_REPORT_COST_REPORT_H_
#define SINTER_SRC_PLAN_REPORT_COST_REPORT_H_

#include <array>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/base/device_model.h"
#include "src/plan/picture/fusion_picture.h"
#include "src/plan/plan.h"

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

struct LevelCost {
  absl::string_view level;
  double us = 0;
  std::string amount;          // "19.5 MB", "862 kB a block"; "" for a level that moves nothing
  std::string rate;            // "4.55 TB/s"
  absl::string_view constant;  // the device model's field behind the rate
  bool bound = false;          // the largest of all levels
};

// For a kernel of products: one entry a level, in the order of LevelTerms().
std::vector<LevelCost> LevelsOf(const PlannedKernel& kernel, const DeviceModel& model);
// For a stitch kernel with known `times`: hbm and l2 (one after the other), issue and latency; then
// "together", the time of these as they overlap, and "fixed". The last two add up to the
// prediction. With unknown `times`: the prediction's fields.
std::vector<LevelCost> StitchLevelsOf(const PlannedKernel& kernel, const FusionTimes& times,
                                      const DeviceModel& model);

// "bandwidth", "the stages' own cost", "the latency of the ring".
absl::string_view NameOf(KernelFacts::Intake intake);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_REPORT_COST_REPORT_H_
