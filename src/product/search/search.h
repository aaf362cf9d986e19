// Search: schedules for a sequence, pruned, costed by the device model, ranked. Deterministic;
// never asks a driver.
#ifndef SINTER_SRC_PRODUCT_SEARCH_SEARCH_H_
#define SINTER_SRC_PRODUCT_SEARCH_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/model/prediction.h"
#include "src/model/search_options.h"
#include "src/product/schedule.h"

namespace sinter {

struct RankedSchedule {
  Schedule schedule;
  Prediction prediction;
};

struct SearchResult {
  // At most top_k, or top_k of each dataflow where those for tuning are offered; best predicted
  // first; ties by Schedule::Canonical().
  std::vector<RankedSchedule> ranked;
  uint64_t considered = 0;  // candidates enumerated
  uint64_t legal = 0;       // after pruning
  double search_us = 0;     // wall time; not part of any plan
};

// FAILED_PRECONDITION with the reason when no schedule is legal. Thread-safe.
absl::StatusOr<SearchResult> SearchSchedules(const ProductSequence& sequence,
                                             const DeviceModel& model,
                                             const SearchOptions& options);

// The analytical cost of one legal schedule.
Prediction Predict(const ProductSequence& sequence, const Schedule& schedule,
                   const DeviceModel& model);

// The same kernel right behind another of its plan: a programmatic edge lets it start while that
// one ends.
Prediction BehindProgrammaticEdge(Prediction prediction, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_SEARCH_H_
