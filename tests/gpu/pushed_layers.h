// Layers over several GPUs for tests: a product, the sum over ranks, the residual, the norm; with
// schedules by hand, and each GPU's data.
#pragma once

#include "src/engine/rank_group.h"
#include "tests/gpu/gpu_tests.h"
#include "tests/gpu/several_gpus.h"

namespace sinter::gpu_testing {

// A layer over all ranks of rows [most, k] and weights [n, k].
struct Layer {
  int64_t n, k, most;
  std::shared_ptr<const Chain> chain;
  Layer(int64_t n, int64_t k, int64_t most = 128);
  // The best plan of two kernels whose product sends nothing.
  Plan PlainPlan(int64_t bucket) const;
};

// The plan with other schedules, whose sum is one-shot. `pushes`: the product sends its tiles.
// `columns`: only those.
Plan With(Plan plan, Schedule product, bool pushes, int threads, int64_t columns = 0);

// For each way to cut the GEMM, in one turn or in several, the schedule that is predicted to be the
// fastest.
std::vector<Schedule> Cuts(const Plan& plain);

// The schedule predicted to be the fastest, for each way in which blocks share loads and for some
// widths of tiles. Only schedules that compute columns early count.
std::vector<Schedule> EarlyCuts(const Plan& plain);

// One GPU with the buffers of a layer.
struct LayerRank {
  Ports ports;
  std::shared_ptr<RankGroup> group;
  std::vector<DeviceBuffer> buffers;  // a, w1, r, gamma, then the outputs
  DeviceBuffer workspace;

  // Frees the buffers of an earlier layer.
  absl::Status Allocate(const Layer& layer, int rank);
  void Free();
  absl::StatusOr<std::shared_ptr<const BoundPlan>> Bind(const LoadedPlanPtr& plan) const;
  // Overwrites the outputs.
  absl::Status Poison() const;
  // The bytes of all outputs.
  absl::StatusOr<std::string> Results() const;
};

}  // namespace sinter::gpu_testing
