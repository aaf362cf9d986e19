// LateKernel: a predecessor that lets its dependents start at once and writes its result late.
#pragma once

#include "src/base/ports.h"
#include "tests/support/common.h"

namespace sinter::gpu_testing {

// Copies what fits of `from` to `to`, 16-bit elements, some 60 us after it
// allowed programmatic dependents to launch. Immutable.
class LateKernel {
 public:
  static absl::StatusOr<std::shared_ptr<const LateKernel>> Make(Compiler* compiler, Loader* loader,
                                                                DeviceBuffer from, DeviceBuffer to);
  absl::Status Enqueue(StreamHandle stream) const {
    return kernel_->Launch(*bound_, stream, 1, 0, false);
  }
  absl::StatusOr<GraphNodeHandle> AddTo(GraphHandle graph) const {
    return kernel_->AddNode(*bound_, graph, {}, 1, 0);
  }

 private:
  LateKernel() = default;
  std::shared_ptr<LoadedKernel> kernel_;
  std::unique_ptr<BoundKernel> bound_;
};

}  // namespace sinter::gpu_testing
