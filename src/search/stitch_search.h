// Search of the stitch family: schedules for a body, costed by the device model, ranked.
#ifndef SINTER_SRC_SEARCH_STITCH_SEARCH_H_
#define SINTER_SRC_SEARCH_STITCH_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/plan/plan.h"
#include "src/plan/stitch/packing.h"
#include "src/plan/stitch/program.h"
#include "src/plan/stitch/schedule.h"
#include "src/search/search.h"

namespace sinter {

struct RankedStitch {
  StitchSchedule schedule;
  Prediction prediction;
  std::vector<StitchPart> parts;  // packed (packed_search.h); else none
  uint64_t scratch_bytes = 0;     // StitchScratchBytes; packed: none
};

// Best first, at most options.top_k; ties by StitchSchedule::Canonical(). FAILED_PRECONDITION
// naming the op that keeps the body out of one kernel. Deterministic, thread-safe.
absl::StatusOr<std::vector<RankedStitch>> SearchStitch(const Chain& body, int64_t bucket,
                                                       const DeviceModel& model,
                                                       const SearchOptions& options);

// FusionStitching's latency-evaluator on this chip's levels: bytes over their bandwidth, waves of
// units, barriers. FAILED_PRECONDITION when the body cannot be computed with the schedule's owner.
absl::StatusOr<Prediction> PredictStitch(const Chain& body, const StitchSchedule& schedule,
                                         int64_t bucket, const DeviceModel& model);

// What a kernel's prediction is made of.
struct StitchTimes {
  Prediction alone;
  double issue_sm_us = 0;  // of one SM that executed all instructions
  double turn_us = 0;      // of one block
  double blocks = 0;       // that the work is for
};
absl::StatusOr<StitchTimes> TimesOfStitch(const Chain& body, const StitchSchedule& schedule,
                                          int64_t bucket, const DeviceModel& model);

// Kernels that do not depend on each other, of as many threads a block, packed into one launch of
// `blocks_per_sm`: launched once, bytes and instructions of all, blocks behind one another.
Prediction PredictTogether(const std::vector<StitchTimes>& parts, int blocks_per_sm,
                           const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_SEARCH_STITCH_SEARCH_H_
