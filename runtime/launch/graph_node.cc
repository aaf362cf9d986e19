#include "runtime/launch/graph_node.h"

#include <vector>

#include "runtime/driver/scopes.h"
#include "runtime/launch/binding.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Both forms of a kernel node's parameters have these fields.
template <typename Params>
void SetParams(const Binding& bound, Frame* frame, Params* out) {
  out->func = bound.function;
  out->gridDimX = bound.config.gridDimX;
  out->gridDimY = bound.config.gridDimY;
  out->gridDimZ = bound.config.gridDimZ;
  out->blockDimX = bound.config.blockDimX;
  out->blockDimY = bound.config.blockDimY;
  out->blockDimZ = bound.config.blockDimZ;
  out->sharedMemBytes = bound.config.sharedMemBytes;
  out->kernelParams = frame->params;
}

// The edges from `edges.from`, programmatic from kernels if `programmatic`.
absl::StatusOr<std::vector<CUgraphEdgeData>> EdgesOf(const Driver& driver, const NodeEdges& edges,
                                                     bool programmatic) {
  std::vector<CUgraphEdgeData> result(edges.from.size());
  for (size_t i = 0; programmatic && i < result.size(); ++i) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    SINTER_RETURN_IF_ERROR(
        driver.Check(driver->GraphNodeGetType(static_cast<CUgraphNode>(edges.from[i]), &type),
                     "cuGraphNodeGetType"));
    if (type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
    result[i].from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
    result[i].type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  }
  return result;
}

absl::StatusOr<CUgraphNode> Add(const Driver& driver, GraphHandle graph, const NodeEdges& edges,
                                bool programmatic, CUgraphNodeParams* params) {
  if (driver->GraphAddNode == nullptr) {
    return absl::UnimplementedError(
        "the driver lacks cuGraphAddNode_v2, which came with CUDA 12.3: capture a launch instead");
  }
  SINTER_ASSIGN_OR_RETURN(const std::vector<CUgraphEdgeData> data,
                          EdgesOf(driver, edges, programmatic));
  std::vector<CUgraphNode> from;
  for (const GraphNodeHandle node : edges.from) from.push_back(static_cast<CUgraphNode>(node));
  CUgraphNode node = nullptr;
  SINTER_RETURN_IF_ERROR(
      driver.Check(driver->GraphAddNode(&node, static_cast<CUgraph>(graph), from.data(),
                                        data.data(), from.size(), params),
                   "cuGraphAddNode"));
  return node;
}

// Clusters and co-residency are attributes of a node; they stay when its parameters change.
absl::Status SetAttributes(const Driver& driver, const Binding& bound, CUgraphNode node) {
  if (bound.has_cluster) {
    SINTER_RETURN_IF_ERROR(driver.Check(
        driver->GraphKernelNodeSetAttribute(node, bound.cluster.id, &bound.cluster.value),
        "cuGraphKernelNodeSetAttribute(cluster)"));
  }
  if (!bound.cooperative) return absl::OkStatus();
  CUlaunchAttributeValue value{};
  value.cooperative = 1;
  return driver.Check(
      driver->GraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value),
      "cuGraphKernelNodeSetAttribute(cooperative)");
}

}  // namespace

absl::StatusOr<GraphNodeHandle> AddKernelNode(const Device& device, const Binding& bound,
                                              GraphHandle graph, const NodeEdges& edges, int64_t m,
                                              int64_t row_offset) {
  const Driver& driver = device.driver();
  DriverScope scope(device);
  SINTER_RETURN_IF_ERROR(scope.status());
  Frame frame;
  SINTER_RETURN_IF_ERROR(FillParams(driver, bound, m, row_offset, &frame));
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_KERNEL;
  SetParams(bound, &frame, &params.kernel);
  SINTER_ASSIGN_OR_RETURN(const CUgraphNode node,
                          Add(driver, graph, edges, edges.programmatic && bound.pdl, &params));
  const absl::Status status = SetAttributes(driver, bound, node);
  if (status.ok()) return static_cast<GraphNodeHandle>(node);
  driver->GraphDestroyNode(node);
  return status;
}

absl::Status UpdateKernelNode(const Device& device, const Binding& bound, GraphExecHandle exec,
                              GraphNodeHandle node, int64_t m, int64_t row_offset) {
  const Driver& driver = device.driver();
  DriverScope scope(device);
  SINTER_RETURN_IF_ERROR(scope.status());
  Frame frame;
  SINTER_RETURN_IF_ERROR(FillParams(driver, bound, m, row_offset, &frame));
  CUDA_KERNEL_NODE_PARAMS params{};
  SetParams(bound, &frame, &params);
  return driver.Check(driver->GraphExecKernelNodeSetParams(static_cast<CUgraphExec>(exec),
                                                           static_cast<CUgraphNode>(node), &params),
                      "cuGraphExecKernelNodeSetParams");
}

absl::StatusOr<GraphNodeHandle> AddEmptyNode(const Device& device, GraphHandle graph,
                                             const NodeEdges& edges) {
  DriverScope scope(device);
  SINTER_RETURN_IF_ERROR(scope.status());
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_EMPTY;
  SINTER_ASSIGN_OR_RETURN(const CUgraphNode node,
                          Add(device.driver(), graph, edges, /*programmatic=*/false, &params));
  return static_cast<GraphNodeHandle>(node);
}

void RemoveNode(const Device& device, GraphNodeHandle node) {
  DriverScope scope(device);
  if (scope.status().ok()) device.driver()->GraphDestroyNode(static_cast<CUgraphNode>(node));
}

}  // namespace sinter
