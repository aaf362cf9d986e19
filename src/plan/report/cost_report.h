// The cost model's account of one kernel for people: what each memory level moves, at what rate,
// how long that takes. Times are the prediction's own; amounts follow from the schedule.
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

// What a schedule asks of the chip: of the busiest block unless it says otherwise. All zero for a
// spec that CheckScheduleFields refuses.
struct KernelFacts {
  enum class Intake { kBandwidth, kStages, kRing };
  double block_bytes = 0;      // taken in through L2
  double intake_bytes = 0;     // the same, and what lines cost more of which boxes take parts
  double shared_bytes = 0;     // ring writes and operand reads
  double flop = 0;             // padded to whole tiles and 64 rows a warpgroup
  int64_t steps = 0;           // ring stages
  int64_t turns = 0;           // tiles, one after another
  int64_t busy_blocks = 0;     // blocks with work, of the product with fewer of them
  double bytes_in_flight = 0;  // of the ring: one stage is always with the consumers
  int64_t row_reads = 0;     // times that the rows of the first product are taken in: column tiles
  int64_t c_reads = 0;       // times that C is taken in by the second product; 0 within a cluster
  int64_t weight_reads = 0;  // times that weights are taken in: row tiles
  int64_t warpgroups = 0;
  Intake intake = Intake::kBandwidth;  // what the intake's time is made of
};
KernelFacts FactsOf(const PlannedKernel& kernel, const DeviceModel& model);

struct LevelCost {
  absl::string_view level;
  double us = 0;
  std::string amount;          // "19.5 MB", "862 kB a block"; "" when the level moves nothing
  std::string rate;            // "4.55 TB/s"
  absl::string_view constant;  // the device model's field behind the rate
  bool bound = false;          // the largest of all
};

// Of a product: one entry a level, in the order of LevelTerms().
std::vector<LevelCost> LevelsOf(const PlannedKernel& kernel, const DeviceModel& model);
// Of a stitch kernel, whose times `fusion` knows: hbm and l2, which move one behind the other,
// issue and latency; then "together", what these take as they overlap, and "fixed". The last two
// add up to the prediction. Where `fusion` does not know them: what the prediction holds.
std::vector<LevelCost> StitchLevelsOf(const PlannedKernel& kernel, const FusionTimes& times,
                                      const DeviceModel& model);

// "bandwidth", "the stages' own cost", "the latency of the ring".
absl::string_view NameOf(KernelFacts::Intake intake);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_REPORT_COST_REPORT_H_
