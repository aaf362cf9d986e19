// StitchRuns: graphs of any ops on the device: bound, run into poisoned outputs, compared.
#pragma once

#include "src/stitch/schedule.h"
#include "tests/bench/graph_check.h"
#include "tests/bench/runnable.h"

namespace sinter::gpu_testing {

// Enqueues one computation; holds what it needs but the data.
using GraphLaunch = std::function<absl::Status(StreamHandle)>;

// One graph's data on the device and what its outputs must be. One thread; the ports outlive it.
class StitchRuns {
 public:
  // At the case's m. `full_elements`: of GraphExpected, which samples rows above it.
  static absl::StatusOr<std::unique_ptr<StitchRuns>> Make(const Ports& ports,
                                                          const bench::GraphCase& c, uint64_t seed,
                                                          int64_t full_elements = 50 * 1000 * 1000);

  // For a graph that is exact in f32 with these canonical inputs: every bit is compared.
  static absl::StatusOr<std::unique_ptr<StitchRuns>> MakeExact(
      const Ports& ports, const bench::GraphCase& c, const std::vector<std::string>& inputs);

  bool HasAliases() const;
  // What GraphExpected could not compute is taken from this plan's outputs.
  absl::Status Trust(const std::shared_ptr<const PreparedPlan>& plan);

  // `repeats` runs into poisoned outputs: the first within its bounds, the others the same bytes;
  // then, when outputs may share inputs' buffers, one more where they do.
  absl::Status Check(const std::shared_ptr<const PreparedPlan>& plan, int repeats);
  absl::Status Check(const LoadedPlanPtr& plan, int repeats);

 private:
  StitchRuns(const Ports& ports, const bench::GraphCase& c) : ports_(ports), case_(c) {}
  // Binds a plan to set 0.
  using Binder = std::function<absl::StatusOr<GraphLaunch>(bool in_place)>;
  Binder BinderOf(const std::shared_ptr<const PreparedPlan>& plan);
  Binder BinderOf(const LoadedPlanPtr& plan);
  absl::Status CheckBound(const Binder& bind, int repeats);
  absl::StatusOr<std::vector<std::string>> RunOnce(const GraphLaunch& launch, bool in_place);

  const Ports& ports_;
  const bench::GraphCase& case_;
  std::unique_ptr<bench::GraphData> data_;
  bench::GraphExpected expected_;
};

// A plan that the engine did not prepare, bound to every set of buffers in the caller's order.
absl::StatusOr<bench::Runnable> RunnableOfGraph(const Ports& ports, const bench::GraphCase& c,
                                                const LoadedPlanPtr& plan,
                                                const std::vector<std::vector<DevicePtr>>& sets);

// The plan of one kernel that computes the whole chain with `schedule`.
// `parts`: packed, or none.
absl::StatusOr<Plan> OneStitchPlan(const Chain& chain, int64_t bucket,
                                   const StitchSchedule& schedule,
                                   const std::vector<StitchPart>& parts = {});

// At most `count` of SearchStitch's whole ranking: the best, the best of every kind that there is
// (flat, units of a thread, of warps, of blocks, of clusters; kept inputs, values and what all
// units read alike and what phases hold; shared reductions; several phases; narrow vectors), the
// rest spread over the ranking. Ascending.
absl::StatusOr<std::vector<StitchSchedule>> VariedSchedules(const Chain& chain, int64_t bucket,
                                                            const DeviceModel& model, size_t count);

}  // namespace sinter::gpu_testing
