// GraphSchedules: one graph in one kernel, schedule after schedule, so that the stitch family's
// predictions can be compared with the chip.
#pragma once

#include "src/engine/engine.h"
#include "tests/bench/graph_cases.h"
#include "tests/bench/results.h"
#include "tests/gpu/watchdog.h"

namespace sinter::bench {

struct GraphScheduleOptions {
  int count = 32;   // schedules of a graph
  int threads = 1;  // that compile
  int replays = 7;
  int64_t full_elements = 50 * 1000 * 1000;  // of GraphExpected
};

// The predicted best, then the predicted best of each kind (how blocks are made, how many an SM
// has, how columns are joined), cold and checked. Kind "stitch"; `note` where something failed.
absl::StatusOr<std::vector<SweepRow>> MeasureSchedules(const Ports& ports, const GraphCase& c,
                                                       const GraphScheduleOptions& options,
                                                       gpu_testing::Watchdog* watchdog);

}  // namespace sinter::bench
