// ScheduleRuns: schedules of one case's kernel, built on several threads while those before them
// are checked and timed.
#pragma once

#include "src/engine/engine.h"
#include "tests/bench/check.h"
#include "tests/bench/graph_data.h"
#include "tests/bench/results.h"
#include "tests/gpu/watchdog.h"

namespace sinter::bench {

// A schedule and its place in the search's order, from 1.
struct PlacedSchedule {
  RankedSchedule ranked;
  int rank = 0;
};

// Every legal schedule of the shipping space, and of what `options` adds to it, in the search's
// order, each once.
struct LegalSpace {
  std::vector<PlacedSchedule> schedules;
  uint64_t considered = 0;
};
absl::StatusOr<LegalSpace> LegalSpaceOf(const ProductSequence& problem, const DeviceModel& model,
                                        const SearchOptions& options = {});

// The row of a schedule that was not measured yet.
SweepRow RowOf(const Case& c, const std::string& kind, int rank, const RankedSchedule& ranked);

// One thread; everything that is given to Make outlives it.
class ScheduleRuns {
 public:
  static absl::StatusOr<std::unique_ptr<ScheduleRuns>> Make(const Ports& ports, const Case& c,
                                                            int threads, int replays,
                                                            gpu_testing::Watchdog* watchdog);

  // Rows of `schedules` in the order they were built in; none is begun after `seconds`.
  // `measured_us` (cold, plain edges; for a part only its kernel's) is absent where `note` says
  // why: "build: .." or "run: ..".
  std::vector<SweepRow> Run(const std::vector<PlacedSchedule>& schedules, const std::string& kind,
                            double seconds);

 private:
  struct Built;
  class Queue;
  ScheduleRuns(const Ports& ports, const Case& c, int threads, int replays,
               gpu_testing::Watchdog* watchdog)
      : ports_(ports), case_(c), threads_(threads), replays_(replays), watchdog_(watchdog) {}
  void BuildAll(const std::vector<PlacedSchedule>& schedules, double seconds, Queue* queue) const;
  absl::Status Measure(const Built& built, SweepRow* row);

  const Ports& ports_;
  const Case& case_;
  const int threads_, replays_;
  gpu_testing::Watchdog* const watchdog_;
  ProductSequence problem_;
  std::shared_ptr<const Chain> chain_;
  std::unique_ptr<GraphData> data_;
  Expected expected_;
};

}  // namespace sinter::bench
