// A plan's launches as nodes of a caller's graph, and new arguments for them in an instance of it.
#ifndef SINTER_SRC_ENGINE_GRAPH_NODES_H_
#define SINTER_SRC_ENGINE_GRAPH_NODES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "src/engine/bound_plan.h"
#include "src/engine/engine.h"

namespace sinter {

// As PreparedPlan::AddToGraph and UpdateInGraph; `m` has passed CheckRows. `edges.programmatic` is
// of the first node; inside the plan the edges are those of a launch.
absl::StatusOr<PlanNodes> AddPlanNodes(const BoundPlan& bound, Loader& loader, GraphHandle graph,
                                       NodeEdges edges, int64_t m);
// Where a node fails, those before it have the new arguments.
absl::Status UpdatePlanNodes(const PlanNodes& nodes, GraphExecHandle exec, const BoundPlan& bound,
                             int64_t m);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_GRAPH_NODES_H_
