// BoundPlan: a loaded plan and the buffers it works on; how it is enqueued, on a stream or as nodes
// of a graph; what a workspace must be.
#ifndef SINTER_SRC_ENGINE_BOUND_PLAN_H_
#define SINTER_SRC_ENGINE_BOUND_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/ports.h"
#include "src/engine/engine.h"
#include "src/engine/loaded_plan.h"
#include "src/engine/rank_group.h"
#include "src/plan/plan.h"

namespace sinter {

constexpr uint64_t kBufferAlignment = 16;  // bytes; what tensor maps need

// A buffer that is written and another one that overlaps it: of more than `rows` rows of M.
struct BufferOverlap {
  int64_t rows = std::numeric_limits<int64_t>::max();
  int low = -1, high = -1;  // their numbers, by address; after the outputs' numbers: the workspace
  int64_t distance = 0;     // bytes between their beginnings; 0: `high` is written
};

// Immutable, thread-safe. Keeps its plan alive.
struct BoundPlan : PlanBinding {
  BufferOverlap overlap;  // the one that the fewest rows have
  LoadedPlanPtr plan;
  std::vector<std::unique_ptr<BoundKernel>> kernels;  // one per kernel of the plan
  std::shared_ptr<RankGroup> group;                   // of a chain that is split over ranks
  int64_t at_once = 0;  // rows of a pass: RowLimits::at_once, or what the group's slots hold
};

// `buffers` in canonical order: inputs, then outputs. Needs loaded kernels. INVALID_ARGUMENT on a
// wrong count, a null or misaligned pointer, or an output's buffer that overlaps another one for
// any number of rows and is not its alias's, or a workspace that overlaps a buffer; it names them.
// `no_rows`: the binding is launched with m = 0 only, so the buffers of rows, which then have no
// elements, may be null. `order`: the caller's Chain::InputOrder, by which errors number inputs;
// null: the canonical order. `group`: for a chain that is split over ranks, which need not agree
// here; FAILED_PRECONDITION without one, with one of another size, or whose slots are too small.
absl::StatusOr<std::shared_ptr<const BoundPlan>> BindPlan(
    LoadedPlanPtr plan, const std::vector<DevicePtr>& buffers, DevicePtr workspace,
    bool no_rows = false, const std::vector<int32_t>* order = nullptr,
    std::shared_ptr<RankGroup> group = nullptr);

// OUT_OF_RANGE unless the plan takes `m` rows: 0..bucket, any number for the largest bucket. A
// chain without M ignores it.
absl::Status CheckRows(const LoadedPlan& plan, int64_t m);

// INVALID_ARGUMENT where buffers of `m` rows overlap as BindPlan refuses it; `order` as there.
absl::Status CheckOverlap(const BoundPlan& bound, int64_t m, const std::vector<int32_t>* order);

// How many of the plan's buckets `m` rows fill, in however many passes a group's slots make of one.
// Predicted times are for one bucket.
int64_t BucketsFilled(const LoadedPlan& plan, int64_t m);

// One launch of a kernel of a plan.
struct PlanLaunch {
  size_t kernel = 0;
  int64_t rows = 0, offset = 0;
  bool edge = false;  // it may start while its predecessor ends
};

// Calls `step(PlanLaunch)`, which returns a status, for every launch that `m` rows take, in order,
// until one fails. `pdl_edge` is for the first launch; inside the plan every kernel that can start
// early does. `at_once`: the most rows of a pass; 0: the plan's. Without rows, only the kernels
// that outputs without M need are launched.
template <typename Step>
absl::Status ForEachLaunch(const LoadedPlan& plan, int64_t m, bool pdl_edge, Step&& step,
                           int64_t at_once = 0) {
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
  if (at_once == 0) at_once = plan.rows.at_once;
  for (int64_t offset = 0; offset < rows; offset += at_once) {
    const int64_t piece = std::min(at_once, rows - offset);
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

// Enqueues `m` rows, in passes if the plan cannot take them at once. `pdl_edge`: the first kernel
// may start while its predecessor on the stream ends; inside the plan every kernel that can does. m
// = 0 enqueues only what outputs without M need. Allocates nothing and waits for nothing.
// `half_sent`, which may be null and is false before: whether it failed between a kernel that sends
// an all-reduce's operand and the all-reduce.
absl::Status EnqueuePlan(const BoundPlan& bound, StreamHandle stream, int64_t m, bool pdl_edge,
                         bool* half_sent = nullptr);

// As PreparedPlan::AddToGraph and UpdateInGraph. `m` has passed CheckRows. `edges.programmatic` is
// for the first node; inside the plan the edges are the same as in a launch.
absl::StatusOr<PlanNodes> AddPlanNodes(const BoundPlan& bound, Loader& loader, GraphHandle graph,
                                       NodeEdges edges, int64_t m);
// If a node fails, the nodes before it have the new arguments.
absl::Status UpdatePlanNodes(const PlanNodes& nodes, GraphExecHandle exec, const BoundPlan& bound,
                             int64_t m);

constexpr uint64_t kWorkspaceAlignment = 128;  // bytes

// INVALID_ARGUMENT saying what is wrong with a caller's workspace of `bytes` bytes.
absl::Status CheckWorkspace(const Plan& plan, DevicePtr workspace, uint64_t bytes);

// Enqueues the clearing of the workspace's header: the launch epoch and the ready flags, which all
// plans that use the workspace share. Flags carry the epoch of their launch, so one clearing serves
// all launches. The caller has checked the workspace.
absl::Status ClearHeader(const Plan& plan, Loader& loader, DevicePtr workspace,
                         StreamHandle stream);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_BOUND_PLAN_H_
