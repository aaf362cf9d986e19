// The Loader port on the driver, the kernels that it loads, and ReleaseQueue: objects that must not
// die where their last owner let them go.
#ifndef SINTER_RUNTIME_LAUNCH_LOADER_H_
#define SINTER_RUNTIME_LAUNCH_LOADER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/driver/driver.h"
#include "runtime/launch/binding.h"
#include "src/base/launch_recipe.h"
#include "src/base/ports.h"

namespace sinter {

// A graph that dies drops its user objects in a callback on a thread of the driver, where calling
// the driver is illegal; a plan that died there would unload modules. The callback pushes the plan
// here instead, and the next call on a slow path releases it. Thread-safe. Nothing is released
// under the lock.
class ReleaseQueue {
 public:
  // Takes `object`. After Close() there is no later slow path: a thread of its own releases it.
  void Push(std::shared_ptr<const void> object);
  // Releases what was pushed. Not to be called from a CUDA callback.
  void Drain();
  // Drains, now and for good.
  void Close();

 private:
  std::mutex mutex_;  // guards both fields
  std::vector<std::shared_ptr<const void>> pending_;
  bool closed_ = false;
};

// The LoadedKernel port: a module on a device, launched with cuLaunchKernelEx.

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

// Thread-safe. Kernels keep the device, not the loader. An object tied to a graph that dies is
// released at the next Load or Bind, or when the loader retires or dies; after that by a
// short-lived thread. Retire it before its owner goes when such an object keeps the loader alive.
absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(std::shared_ptr<const Device> device);

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_LOADER_H_
