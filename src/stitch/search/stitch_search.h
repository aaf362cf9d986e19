// Search of the stitch family: schedules for a body, costed by the device model and ranked.
#ifndef SINTER_SRC_STITCH_SEARCH_STITCH_SEARCH_H_
#define SINTER_SRC_STITCH_SEARCH_STITCH_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/model/prediction.h"
#include "src/model/search_options.h"
#include "src/stitch/packing.h"
#include "src/stitch/schedule.h"

namespace sinter {

struct RankedStitch {
  StitchSchedule schedule;
  Prediction prediction;
  std::vector<StitchPart> parts;  // packed (packed_search.h); else none
  uint64_t scratch_bytes = 0;     // StitchScratchBytes; packed: 0
};

// Best first, at most options.top_k; ties by StitchSchedule::Canonical(). FAILED_PRECONDITION
// naming the op that one kernel cannot take; RESOURCE_EXHAUSTED when options.budget is spent.
// Deterministic, thread-safe.
absl::StatusOr<std::vector<RankedStitch>> SearchStitch(const Chain& body, int64_t bucket,
                                                       const DeviceModel& model,
                                                       const SearchOptions& options);

// Kinds of stitched kernels. Neighbours in a ranking differ in a knob of little effect; tuning
// wants to measure schedules that differ in kind.

// Moves the best of each kind to the front: how units are shared, vectors, blocks an SM, what is
// kept, held and handed over, how columns are joined. Both parts keep their order.
void PutKindsFirst(std::vector<RankedStitch>* ranked);

// `schedule` with the grid for `bucket` rows: a block for each turn of the work, or the resident
// blocks, whichever is predicted faster. Nothing else changes. FAILED_PRECONDITION when the body
// cannot be computed with it, or when its blocks wait for one another. Thread-safe.
absl::StatusOr<RankedStitch> AtBucket(const Chain& body, const StitchSchedule& schedule,
                                      int64_t bucket, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_STITCH_SEARCH_H_
