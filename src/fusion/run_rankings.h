// RunRankings: the schedules and the best cuts of runs of products, found once for equal runs.
#ifndef SINTER_SRC_FUSION_RUN_RANKINGS_H_
#define SINTER_SRC_FUSION_RUN_RANKINGS_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/rankings.h"

namespace sinter {

struct RankedRun {
  Rankings rankings;
  std::vector<Segmentation> cuts;  // the best ones; possibly without pairs
  Segmentation apart;              // each product alone

  // The `i`-th cut of a fused plan, or the last; `apart` for an unfused plan.
  const Segmentation& CutAt(bool fused, size_t i) const;
  // Whether the `i`-th cut is `apart`.
  bool IsApart(size_t i) const { return PairsOf(CutAt(true, i)) == 0; }
  // The most schedules that any kernel of the cut has.
  size_t Depth(const Segmentation& cut) const;
  // The `i`-th schedule of each kernel, or its last.
  std::vector<RankedSchedule> SchedulesAt(const Segmentation& cut, size_t i) const;
};

// Not thread-safe.
class RunRankings {
 public:
  // options.top_k bounds the schedules of a kernel and the cuts of a run. `model` must outlive it.
  RunRankings(const DeviceModel& model, const SearchOptions& options)
      : model_(model), options_(options) {}

  // `behind`: another kernel computes the run's rows. Valid while this lives. Errors are
  // Rankings::Make's.
  absl::StatusOr<const RankedRun*> Of(const GraphRun& run, bool behind);
  // Schedules of all runs so far.
  uint64_t considered() const;
  uint64_t legal() const;

 private:
  const DeviceModel& model_;
  const SearchOptions options_;
  // By canonical sequence, m, and whether it stands behind another kernel.
  std::map<std::tuple<std::string, int64_t, bool>, RankedRun> known_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_RUN_RANKINGS_H_
