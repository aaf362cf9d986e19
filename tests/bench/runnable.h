// Runnable: anything that computes a chain on the device, bound to every set of a GraphData; and
// what is measured on it.
#pragma once

#include "src/engine/engine.h"
#include "tests/bench/graph_data.h"

namespace sinter::bench {

struct Runnable {
  size_t sets = 0;
  // Enqueues one computation on set `set`; holds everything it needs but the GraphData.
  std::function<absl::Status(StreamHandle, size_t set, bool pdl)> enqueue;
};

// The plan bound to every set, with a poisoned workspace of its own whose header was cleared once.
absl::StatusOr<Runnable> RunnableOf(Measurer* measurer, std::shared_ptr<const PreparedPlan> plan,
                                    int64_t m, const GraphData& data);
// The same for any buffers: `sets` in the order of the plan's caller.
absl::StatusOr<Runnable> RunnableOf(Measurer* measurer, std::shared_ptr<const PreparedPlan> plan,
                                    int64_t m, const std::vector<std::vector<DevicePtr>>& sets);
// The same for a plan that the engine did not prepare. `loader` outlives the result.
// Kernel `only` >= 0: only that kernel; a run of the whole plan fills the workspace first.
absl::StatusOr<Runnable> RunnableOf(Measurer* measurer, Loader* loader, LoadedPlanPtr plan,
                                    int64_t m, const GraphData& data, int only = -1);

struct TimingOptions {
  bool cold = true;  // rotate over all sets; else set 0 always
  bool pdl = false;  // programmatic edges; else plain
  int replays = 15;
  int calls = 64;  // computations in the graph at least
};

// Computations of the graph that TimeInGraph replays: a multiple of the sets.
int CallsOf(const Runnable& runnable, const TimingOptions& options);

// Median microseconds per computation in a graph of at least `calls`, every set at least once.
absl::StatusOr<double> TimeInGraph(Measurer* measurer, const Runnable& runnable,
                                   const TimingOptions& options);

// CPU microseconds of one enqueue without a graph: the median of batches that fit the driver's
// queue, where one computation is `kernels` launches.
absl::StatusOr<double> HostUs(Measurer* measurer, const Runnable& runnable, int kernels = 2);

// One computation on set 0 into a poisoned output.
absl::StatusOr<std::string> RunOnce(Measurer* measurer, const Runnable& runnable, GraphData* data);

}  // namespace sinter::bench
