// RunRankings: the schedules of products in mixed graphs, found once for equal runs.
#ifndef SINTER_SRC_FUSION_STITCH_RUN_RANKINGS_H_
#define SINTER_SRC_FUSION_STITCH_RUN_RANKINGS_H_

#include <map>
#include <utility>

#include "absl/status/statusor.h"
#include "src/base/digest.h"
#include "src/fusion/rankings.h"
#include "src/fusion/stitch/plan_assembly.h"

namespace sinter {

// Not thread-safe.
class RunRankings {
 public:
  RunRankings(const DeviceModel& model, const SearchOptions& options)
      : model_(model), options_(options) {}

  absl::StatusOr<const Rankings*> Of(const ProductRun& run);
  // The run as a step of a plan: every kernel with the `choice`-th of its schedules (the last where
  // it has fewer); each product alone unless `pairs`, else cut best.
  absl::StatusOr<PlanStep> StepOf(const ProductRun& run, bool pairs, int choice);

 private:
  const DeviceModel model_;
  const SearchOptions options_;
  std::map<std::pair<Digest, int64_t>, Rankings> known_;  // by the run's chain and its rows
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_RUN_RANKINGS_H_
