// BoundPlan: a loaded plan and the buffers it works on; how it is enqueued.
#ifndef SINTER_SRC_ENGINE_BOUND_PLAN_H_
#define SINTER_SRC_ENGINE_BOUND_PLAN_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "src/engine/engine.h"
#include "src/engine/loaded_plan.h"

namespace sinter {

constexpr uint64_t kBufferAlignment = 16;  // bytes; what tensor maps need

// Immutable, thread-safe. Keeps its plan alive.
struct BoundPlan : PlanBinding {
  LoadedPlanPtr plan;
  std::vector<std::unique_ptr<BoundKernel>> kernels;  // one per kernel of the plan
};

// `buffers` in canonical order: inputs, then outputs. Needs loaded kernels. INVALID_ARGUMENT on a
// wrong count, a null or misaligned pointer, naming it.
absl::StatusOr<std::shared_ptr<const BoundPlan>> BindPlan(LoadedPlanPtr plan,
                                                          const std::vector<DevicePtr>& buffers,
                                                          DevicePtr workspace);

// OUT_OF_RANGE unless the plan takes `m` rows: 0..bucket, any number for the largest bucket. A
// chain without M ignores it.
absl::Status CheckRows(const LoadedPlan& plan, int64_t m);

// How often the plan's kernels run for `m` rows.
int64_t PassesFor(const LoadedPlan& plan, int64_t m);

// Enqueues `m` rows, in pieces of the largest bucket when there are more. `pdl_edge`: the first
// kernel may start while its predecessor on the stream ends; inside the plan every kernel that can
// does. m = 0 enqueues nothing. Allocates nothing, waits for nothing.
absl::Status EnqueuePlan(const BoundPlan& bound, StreamHandle stream, int64_t m, bool pdl_edge);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_BOUND_PLAN_H_
