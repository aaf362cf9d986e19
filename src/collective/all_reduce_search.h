// The schedules of a sum over ranks, or a gather, with their predicted times.
#ifndef SINTER_SRC_COLLECTIVE_ALL_REDUCE_SEARCH_H_
#define SINTER_SRC_COLLECTIVE_ALL_REDUCE_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/collective/all_reduce.h"
#include "src/model/prediction.h"

namespace sinter {

struct RankedAllReduce {
  AllReduceSchedule schedule;
  Prediction prediction;
};

// Time of a launch of `m` rows when all ranks begin at once.
absl::StatusOr<Prediction> PredictAllReduce(const AllReduceProblem& p, const AllReduceSchedule& s,
                                            int64_t m, const DeviceModel& model);

// Best first; empty where no kernel computes it. The same on all ranks: of one model.
// `pushed`: of x that the kernel before pushes in so many turns; 0: of x in memory.
std::vector<RankedAllReduce> SearchAllReduce(const AllReduceProblem& p, int64_t m,
                                             const DeviceModel& model, int64_t pushed = 0);

}  // namespace sinter

#endif  // SINTER_SRC_COLLECTIVE_ALL_REDUCE_SEARCH_H_
