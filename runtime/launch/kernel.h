// The LoadedKernel port: a module on a device, launched with cuLaunchKernelEx.
#ifndef SINTER_RUNTIME_LAUNCH_KERNEL_H_
#define SINTER_RUNTIME_LAUNCH_KERNEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver/driver.h"
#include "runtime/launch/binding.h"
#include "runtime/launch/loader.h"
#include "src/base/launch_recipe.h"
#include "src/base/ports.h"

namespace sinter {

// Loads `cubin` and prepares its entry for recipes like `recipe`: dynamic shared memory, cluster
// size, no lazy loading left. `queue` is drained where the kernel is on a slow path. The kernel
// unloads its module when it dies, which must not happen inside a CUDA callback: whoever ties a
// kernel to a graph hands it over through `queue`.
absl::StatusOr<std::shared_ptr<LoadedKernel>> LoadKernel(
    const std::shared_ptr<const Device>& device, absl::string_view cubin,
    const LaunchRecipe& recipe, std::shared_ptr<ReleaseQueue> queue);

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

#endif  // SINTER_RUNTIME_LAUNCH_KERNEL_H_
