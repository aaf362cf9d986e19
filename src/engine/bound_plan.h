// BoundPlan: a loaded plan and the buffers it works on; how it is enqueued, on a stream or as nodes
// of a graph; what a workspace must be.
#ifndef SINTER_SRC_ENGINE_BOUND_PLAN_H_
#define SINTER_SRC_ENGINE_BOUND_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/ports.h"
#include "src/engine/engine.h"
#include "src/engine/loaded_plan.h"
#include "src/plan/plan.h"

namespace sinter {

constexpr uint64_t kBufferAlignment = 16;  // bytes; what tensor maps need

// Immutable, thread-safe. Keeps its plan alive.
struct BoundPlan : PlanBinding {
  LoadedPlanPtr plan;
  std::vector<std::unique_ptr<BoundKernel>> kernels;  // one per kernel of the plan
};

// `buffers` in canonical order: inputs, then outputs. Needs loaded kernels. INVALID_ARGUMENT on a
// wrong count, a null or misaligned pointer, naming it. `no_rows`: the binding is launched with
// m = 0 alone, so the buffers of rows, which have no element, may be null. `order`: the caller's
// Chain::InputOrder, in which errors count inputs; null: the canonical order.
absl::StatusOr<std::shared_ptr<const BoundPlan>> BindPlan(
    LoadedPlanPtr plan, const std::vector<DevicePtr>& buffers, DevicePtr workspace,
    bool no_rows = false, const std::vector<int32_t>* order = nullptr);

// OUT_OF_RANGE unless the plan takes `m` rows: 0..bucket, any number for the largest bucket. A
// chain without M ignores it.
absl::Status CheckRows(const LoadedPlan& plan, int64_t m);

// How many of the plan's bucket `m` rows fill, which predicted times are of.
int64_t BucketsFilled(const LoadedPlan& plan, int64_t m);

// One launch of a kernel of a plan.
struct PlanLaunch {
  size_t kernel = 0;
  int64_t rows = 0, offset = 0;
  bool edge = false;  // it may start while its predecessor ends
};

// Calls `step(PlanLaunch)`, which returns a status, for every launch that `m` rows take, in order,
// until one fails. `pdl_edge`: of the first; inside the plan every kernel that can.
// Without rows those kernels alone are launched that outputs without M need.
template <typename Step>
absl::Status ForEachLaunch(const LoadedPlan& plan, int64_t m, bool pdl_edge, Step&& step) {
  const int64_t rows = plan.fixed_rows >= 0 ? plan.fixed_rows : m;
  if (rows == 0) {
    bool inner = false;
    for (const size_t i : plan.without_rows) {
      const LaunchRecipe& recipe = plan.recipes[i];
      const bool edge = recipe.pdl && (inner ? !recipe.cooperative : pdl_edge);
      const absl::Status status = step(PlanLaunch{i, 0, 0, edge});
      if (!status.ok()) return status;
      inner = true;
    }
    return absl::OkStatus();
  }
  for (int64_t offset = 0; offset < rows; offset += plan.rows.at_once) {
    const int64_t piece = std::min(plan.rows.at_once, rows - offset);
    for (size_t i = 0; i < plan.kernels.size(); ++i) {
      const LaunchRecipe& recipe = plan.recipes[i];
      const bool inner = i > 0 || offset > 0;
      const bool edge = recipe.pdl && (inner ? !recipe.cooperative : pdl_edge);
      const absl::Status status = step(PlanLaunch{i, piece, offset, edge});
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

// For errors: "kernel 1 (sinter_stitch) of plan 'fused' 0123456789abcdef".
std::string LaunchedName(const LoadedPlan& plan, size_t kernel);

// Enqueues `m` rows, in passes of at most as many as the plan takes at once. `pdl_edge`: the first
// kernel may start while its predecessor on the stream ends; inside the plan every kernel that can
// does. m = 0 enqueues what outputs without M need. Allocates nothing, waits for nothing.
absl::Status EnqueuePlan(const BoundPlan& bound, StreamHandle stream, int64_t m, bool pdl_edge);

// As PreparedPlan::AddToGraph and UpdateInGraph; `m` has passed CheckRows. `edges.programmatic` is
// of the first node; inside the plan the edges are those of a launch.
absl::StatusOr<PlanNodes> AddPlanNodes(const BoundPlan& bound, Loader& loader, GraphHandle graph,
                                       NodeEdges edges, int64_t m);
// Where a node fails, those before it have the new arguments.
absl::Status UpdatePlanNodes(const PlanNodes& nodes, GraphExecHandle exec, const BoundPlan& bound,
                             int64_t m);

constexpr uint64_t kWorkspaceAlignment = 128;  // bytes

// INVALID_ARGUMENT naming what is wrong with a workspace that a caller gave; `bytes` is what the
// caller has.
absl::Status CheckWorkspace(const Plan& plan, DevicePtr workspace, uint64_t bytes);

// Enqueues the clearing of the header: launch epoch and ready flags, shared by all plans that use
// the workspace in turn. They carry the epoch of a launch, so this is needed once, not per launch.
// The caller has checked the workspace.
absl::Status ClearHeader(const Plan& plan, Loader& loader, DevicePtr workspace,
                         StreamHandle stream);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_BOUND_PLAN_H_
