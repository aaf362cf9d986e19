// Kernel nodes that are added to a caller's graph by hand. What the driver does with clusters and
// programmatic edges there: docs/lab/graph-nodes.md.
#ifndef SINTER_RUNTIME_LAUNCH_GRAPH_NODE_H_
#define SINTER_RUNTIME_LAUNCH_GRAPH_NODE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/driver/device.h"
#include "runtime/launch/binding.h"
#include "src/base/ports.h"

namespace sinter {

// As LoadedKernel::AddNode and UpdateNode. kDriver when a call fails; the graph is then as it was.
absl::StatusOr<GraphNodeHandle> AddKernelNode(const Device& device, const Binding& bound,
                                              GraphHandle graph, const NodeEdges& edges, int64_t m,
                                              int64_t row_offset);
absl::Status UpdateKernelNode(const Device& device, const Binding& bound, GraphExecHandle exec,
                              GraphNodeHandle node, int64_t m, int64_t row_offset);
absl::StatusOr<GraphNodeHandle> AddEmptyNode(const Device& device, GraphHandle graph,
                                             const NodeEdges& edges);
void RemoveNode(const Device& device, GraphNodeHandle node);

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_GRAPH_NODE_H_
