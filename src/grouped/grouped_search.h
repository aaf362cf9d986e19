// The schedules of a grouped product with their predicted times.
#ifndef SINTER_SRC_GROUPED_GROUPED_SEARCH_H_
#define SINTER_SRC_GROUPED_GROUPED_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/grouped/grouped.h"
#include "src/model/prediction.h"

namespace sinter {

struct RankedGrouped {
  GroupedSchedule schedule;
  Prediction prediction;
};

// Experts that uniform routing of `rows` rows to `slots` each names: E (1 - (1 - K / E)^M).
double ExpectedExperts(int64_t experts, int64_t slots, int64_t rows);

// The most tiles of `block_m` slots that any routing of `slots` slots to `groups` groups gives.
int64_t MostTiles(int64_t slots, int64_t groups, int64_t block_m);

// Time in a plan for `bucket` rows, for uniform routing. FAILED_PRECONDITION where the schedule
// cannot run.
absl::StatusOr<Prediction> PredictGrouped(const GroupedProduct& p, const GroupedSchedule& s,
                                          int64_t bucket, const DeviceModel& model);

// Legal schedules, best first; never empty. batch_invariant: those alone that sum in one order
// whatever the bucket is.
std::vector<RankedGrouped> SearchGrouped(const GroupedProduct& p, int64_t bucket,
                                         const DeviceModel& model, bool batch_invariant);

}  // namespace sinter

#endif  // SINTER_SRC_GROUPED_GROUPED_SEARCH_H_
