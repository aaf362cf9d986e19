// RunRankings: the schedules of runs of products and their best cuts, found once for equal runs.
#ifndef SINTER_SRC_FUSION_RUN_RANKINGS_H_
#define SINTER_SRC_FUSION_RUN_RANKINGS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/rankings.h"

namespace sinter {

struct RankedRun {
  Rankings rankings;
  std::vector<Segmentation> cuts;  // the best ones, of which none may pair
  Segmentation apart;              // each product alone

  // The `i`-th cut of a fused plan, the last where there are fewer; `apart` of an unfused one.
  const Segmentation& CutAt(bool fused, size_t i) const;
  // Whether the `i`-th cut is `apart`.
  bool IsApart(size_t i) const { return PairsOf(CutAt(true, i)) == 0; }
  // How many schedules the kernel has that has most.
  size_t Depth(const Segmentation& cut) const;
  // Of each kernel the `i`-th schedule, the last where it has fewer.
  std::vector<RankedSchedule> SchedulesAt(const Segmentation& cut, size_t i) const;
};

// Not thread-safe.
class RunRankings {
 public:
  // As many schedules of a kernel, and cuts of a run, as options.top_k. `model` outlives it.
  RunRankings(const DeviceModel& model, const SearchOptions& options)
      : model_(model), options_(options) {}

  // Lives as long as this. The error of Rankings::Make.
  absl::StatusOr<const RankedRun*> Of(const GraphRun& run);
  // Schedules of all runs so far.
  uint64_t considered() const;
  uint64_t legal() const;

 private:
  const DeviceModel& model_;
  const SearchOptions options_;
  std::map<std::pair<std::string, int64_t>, RankedRun> known_;  // by canonical sequence and m
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_RUN_RANKINGS_H_
