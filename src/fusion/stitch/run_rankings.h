// RunRankings: the schedules of products in mixed graphs, found once for equal runs.
#ifndef SINTER_SRC_FUSION_STITCH_RUN_RANKINGS_H_
#define SINTER_SRC_FUSION_STITCH_RUN_RANKINGS_H_

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "src/fusion/rankings.h"
#include "src/fusion/stitch/plan_assembly.h"

namespace sinter {

// Not thread-safe.
class RunRankings {
 public:
  RunRankings(const DeviceModel& model, const SearchOptions& options)
      : model_(model), options_(options) {}

  absl::StatusOr<const Rankings*> Of(const GraphRun& run);
  // The run as a step of a plan: every kernel with the `choice`-th of its schedules (the last where
  // it has fewer); each product alone unless `pairs`, else cut best.
  absl::StatusOr<PlanStep> StepOf(const GraphRun& run, bool pairs, int choice);

 private:
  const DeviceModel model_;
  const SearchOptions options_;
  std::map<std::pair<std::string, int64_t>, Rankings> known_;  // by canonical sequence and m
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_RUN_RANKINGS_H_
