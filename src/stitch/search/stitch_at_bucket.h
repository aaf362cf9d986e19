// Adapts a stitched kernel's schedule to another bucket.
#ifndef SINTER_SRC_STITCH_SEARCH_STITCH_AT_BUCKET_H_
#define SINTER_SRC_STITCH_SEARCH_STITCH_AT_BUCKET_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "src/stitch/search/stitch_search.h"

namespace sinter {

// `schedule` with the grid for `bucket` rows: a block for each turn of the work, or the resident
// blocks, whichever is predicted faster. Nothing else changes. FAILED_PRECONDITION when the body
// cannot be computed with it, or when its blocks wait for one another. Thread-safe.
absl::StatusOr<RankedStitch> AtBucket(const Chain& body, const StitchSchedule& schedule,
                                      int64_t bucket, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_STITCH_AT_BUCKET_H_
