// The cost model of the stitch family: FusionStitching's latency-evaluator on this chip's levels:
// bytes over bandwidth, instructions, turns of resident blocks, barriers.
#ifndef SINTER_SRC_STITCH_SEARCH_STITCH_COST_MODEL_H_
#define SINTER_SRC_STITCH_SEARCH_STITCH_COST_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/model/prediction.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"
#include "src/stitch/search/stitch_load.h"
#include "src/stitch/spec.h"

namespace sinter {

// The parts of a stitched kernel's time that overlap; Prediction::fixed_us does not.
struct StitchOverlap {
  double moved_us = 0;     // bytes: hbm and l2, one after the other
  double issue_us = 0;     // instructions of all SMs with work
  double latency_us = 0;   // waiting, turn after turn: first reads, joins, barriers
  double together_us = 0;  // all three: their 4-norm, and the loss of persistent blocks
};

// The terms of a kernel's prediction.
struct StitchTimes {
  Prediction alone;  // alone.total_us == alone.fixed_us + overlap.together_us
  StitchOverlap overlap;
  double issue_sm_us = 0;  // of all instructions on one SM
  double turn_us = 0;      // of one block, in the mean
  double first_us = 0;     // of the block with the most work
  double blocks = 0;       // needed for the work
};

// `load`: LoadOf the same schedule. Deterministic and thread-safe, like all functions here.
StitchTimes TimesOfStitch(const Chain& body, const StitchProgram& program,
                          const StitchSchedule& schedule, const StitchLoad& load, int64_t bucket,
                          const DeviceModel& model);

// FAILED_PRECONDITION when the body cannot be computed with the schedule's owner;
// RESOURCE_EXHAUSTED once `budget` (may be null) is spent.
absl::StatusOr<StitchTimes> TimesOfStitch(const Chain& body, const StitchSchedule& schedule,
                                          int64_t bucket, const DeviceModel& model,
                                          StitchBudget* budget = nullptr);

// Independent kernels with equal threads a block, packed into one launch of `blocks_per_sm`: one
// launch, the bytes and instructions of all, blocks one after another. `overlap` may be null.
Prediction PredictTogether(const std::vector<StitchTimes>& parts, int blocks_per_sm,
                           const DeviceModel& model, StitchOverlap* overlap = nullptr);

// The prediction of a spec, packed or not, and its overlapping parts, computed anew. `overlap` may
// be null.
// FAILED_PRECONDITION as above.
absl::StatusOr<Prediction> AccountOf(const StitchSpec& spec, int64_t bucket,
                                     const DeviceModel& model, StitchOverlap* overlap);

// The cost of a stitched kernel's column reductions after their units: write parts, barrier, join
// parts.

// All phases together, in microseconds; 0 without column reductions.
double ColumnJoinsUs(const StitchSchedule& schedule, const StitchLoad& load,
                     const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_STITCH_COST_MODEL_H_
