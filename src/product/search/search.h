// Search: enumerates the schedules of a sequence, prunes them, costs them by the device model and
// ranks them. Deterministic; asks no driver.
#ifndef SINTER_SRC_PRODUCT_SEARCH_SEARCH_H_
#define SINTER_SRC_PRODUCT_SEARCH_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/model/search.h"
#include "src/product/schedule.h"

namespace sinter {

using RankedSchedule = RankedKernel<Schedule>;

struct SearchResult {
  // Best predicted first; ties by Schedule::Canonical(). At most top_k, or top_k of each dataflow
  // when tuning's dataflows are offered.
  std::vector<RankedSchedule> ranked;
  uint64_t considered = 0;  // candidates enumerated
  uint64_t legal = 0;       // after pruning
  double search_us = 0;     // wall time; not part of any plan
};

// FAILED_PRECONDITION with the reason when no schedule is legal. Thread-safe.
absl::StatusOr<SearchResult> SearchSchedules(const ProductSequence& sequence,
                                             const DeviceModel& model,
                                             const SearchOptions& options);

// The predicted time of a legal schedule.
Prediction Predict(const ProductSequence& sequence, const Schedule& schedule,
                   const DeviceModel& model);

// The prediction of a kernel that follows another in its plan: with a programmatic edge (PDL) it
// starts while the other ends, its blocks one by one on the SMs that get free.
Prediction BehindProgrammaticEdge(Prediction prediction, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_SEARCH_H_
