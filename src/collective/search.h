// The schedules of a sum over ranks, or a gather, with their predicted times.
#ifndef SINTER_SRC_COLLECTIVE_SEARCH_H_
#define SINTER_SRC_COLLECTIVE_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/collective/collective.h"
#include "src/model/prediction.h"

namespace sinter {

struct RankedCollective {
  CollectiveSchedule schedule;
  Prediction prediction;
};

// Time of a launch of `m` rows when all ranks begin at once.
absl::StatusOr<Prediction> PredictCollective(const CollectiveProblem& p,
                                             const CollectiveSchedule& s, int64_t m,
                                             const DeviceModel& model);

// Best first; empty where no kernel computes it. The same on all ranks: of one model.
// `pushed`: of x that the kernel before pushes, in so many turns; or of which it pushes the first
// so many columns; neither: of x in memory.
struct PushedX {
  int64_t turns = 0;
  int64_t columns = 0;
};
std::vector<RankedCollective> SearchCollective(const CollectiveProblem& p, int64_t m,
                                               const DeviceModel& model, PushedX pushed = {});

}  // namespace sinter

#endif  // SINTER_SRC_COLLECTIVE_SEARCH_H_
