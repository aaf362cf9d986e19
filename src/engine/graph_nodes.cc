#include "src/engine/graph_nodes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Runs of the plan's kernels that `m` rows take.
int64_t PassesOf(const LoadedPlan& plan, int64_t m) {
  const int64_t rows = plan.fixed_rows >= 0 ? plan.fixed_rows : m;
  return (rows + plan.rows.at_once - 1) / plan.rows.at_once;
}

absl::Status AddKernels(const BoundPlan& bound, GraphHandle graph, NodeEdges edges, int64_t m,
                        std::vector<GraphNodeHandle>* nodes) {
  return ForEachLaunch(
      *bound.plan, m, edges.programmatic, [&](const PlanLaunch& one) -> absl::Status {
        edges.programmatic = one.edge;
        const LoadedKernel& kernel = *bound.plan->kernels[one.kernel]->loaded;
        SINTER_ASSIGN_OR_RETURN(
            const GraphNodeHandle node,
            kernel.AddNode(*bound.kernels[one.kernel], graph, edges, one.rows, one.offset));
        nodes->push_back(node);
        edges.from.assign(1, node);
        return absl::OkStatus();
      });
}

}  // namespace

absl::StatusOr<PlanNodes> AddPlanNodes(const BoundPlan& bound, Loader& loader, GraphHandle graph,
                                       NodeEdges edges, int64_t m) {
  PlanNodes result;
  result.plan = bound.plan;
  result.passes = PassesOf(*bound.plan, m);
  if (result.passes == 0 && bound.plan->without_rows.empty()) {
    SINTER_ASSIGN_OR_RETURN(const GraphNodeHandle node, loader.AddEmptyNode(graph, edges));
    result.nodes.push_back(node);
    return result;
  }
  result.nodes.reserve(result.passes == 0
                           ? bound.plan->without_rows.size()
                           : static_cast<size_t>(result.passes) * bound.kernels.size());
  absl::Status status = AddKernels(bound, graph, std::move(edges), m, &result.nodes);
  if (status.ok()) status = loader.TieToGraph(graph, bound.plan);
  if (status.ok()) return result;
  for (auto node = result.nodes.rbegin(); node != result.nodes.rend(); ++node) {
    loader.RemoveNode(*node);
  }
  return status;
}

absl::Status UpdatePlanNodes(const PlanNodes& nodes, GraphExecHandle exec, const BoundPlan& bound,
                             int64_t m) {
  if (nodes.plan != bound.plan) {
    return absl::FailedPreconditionError(
        "the nodes run another plan than the binding's: build the graph anew");
  }
  const int64_t passes = PassesOf(*bound.plan, m);
  if (passes != nodes.passes) {
    return absl::FailedPreconditionError(absl::StrCat("m ", m, " takes ", passes,
                                                      " passes, the nodes were added for ",
                                                      nodes.passes, ": build the graph anew"));
  }
  size_t next = 0;
  return ForEachLaunch(*bound.plan, m, false, [&](const PlanLaunch& one) {
    return bound.plan->kernels[one.kernel]->loaded->UpdateNode(
        exec, nodes.nodes[next++], *bound.kernels[one.kernel], one.rows, one.offset);
  });
}

}  // namespace sinter
