// Measuring one graph of memory-intensive ops: what the engine chose and the unfused plan, checked
// and timed cold.
#pragma once

#include "src/engine/engine.h"
#include "tests/bench/graph_cases.h"
#include "tests/bench/results.h"
#include "tests/gpu/watchdog.h"

namespace sinter::bench {

struct PreparedGraph {
  absl::StatusOr<std::shared_ptr<const PreparedPlan>> best, unfused;
  // By prediction; NOT_FOUND where `best` is that.
  absl::StatusOr<std::shared_ptr<const PreparedPlan>> untuned;
  double prepare_us = 0;  // of the chosen plan, wall time
  double unfused_predicted_us = 0;
};

// Thread-safe. `chosen`: options of the best plan. `untuned`, which prepares by prediction, may be
// null. Without `unfused` that plan is only predicted.
PreparedGraph PrepareGraph(Engine* engine, Engine* untuned, const PrepareOptions& chosen,
                           const GraphCase& c, bool unfused = true);

struct GraphOptions {
  bool time = true;  // false: check only
  int seeds = 1;     // checked with that many sets of inputs
  int replays = 15;
  int64_t full_elements = 50 * 1000 * 1000;  // checked in full up to so many in one value
};

// Sets of inputs and outputs that a case with plans of at most `kernels` kernels rotates over: more
// than 240 MB together, at most 16,384 sets, and no more than 2^16 launches in a graph.
int64_t GraphSets(const GraphCase& c, int kernels);

// Never fails as a whole: what cannot be measured is absent, with a note. `watchdog` may be null.
GraphRow MeasureGraph(Measurer* measurer, const DeviceModel& model, const GraphCase& c,
                      const PreparedGraph& prepared, const GraphOptions& options,
                      gpu_testing::Watchdog* watchdog);

}  // namespace sinter::bench
