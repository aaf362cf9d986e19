// Owners of driver handles. Each destroys its handle in the device's context and in relaxed capture
// mode.
#ifndef SINTER_RUNTIME_DRIVER_HANDLES_H_
#define SINTER_RUNTIME_DRIVER_HANDLES_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "runtime/driver/device.h"
#include "runtime/driver/scopes.h"

namespace sinter {

// Move-only. Destroying one inside a CUDA callback is illegal, as for any driver call.
template <typename Handle, CUresult (*DriverTable::*kDestroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(std::shared_ptr<const Device> device, Handle handle)
      : device_(std::move(device)), handle_(handle) {}
  Owned(Owned&& other) noexcept { Swap(other); }
  Owned& operator=(Owned&& other) noexcept {
    Owned moved(std::move(other));
    Swap(moved);
    return *this;
  }
  ~Owned() {
    if (handle_ == Handle{}) return;
    DriverScope scope(*device_);
    (device_->driver().table().*kDestroy)(handle_);
  }

  Handle get() const { return handle_; }

 private:
  void Swap(Owned& other) {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
  }

  std::shared_ptr<const Device> device_;
  Handle handle_{};
};

using Module = Owned<CUmodule, &DriverTable::ModuleUnload>;
using Stream = Owned<CUstream, &DriverTable::StreamDestroy>;
using Event = Owned<CUevent, &DriverTable::EventDestroy>;
using Graph = Owned<CUgraph, &DriverTable::GraphDestroy>;
using GraphExec = Owned<CUgraphExec, &DriverTable::GraphExecDestroy>;

// The makers open their own scope. kDriver on failure.
// `image` is a whole cubin that has been checked, 16-byte aligned: the driver takes no length.
absl::StatusOr<Module> LoadModule(const std::shared_ptr<const Device>& device, const void* image);
// A stream that does not synchronise with the legacy stream.
absl::StatusOr<Stream> MakeStream(const std::shared_ptr<const Device>& device);
absl::StatusOr<Event> MakeEvent(const std::shared_ptr<const Device>& device);
absl::StatusOr<GraphExec> Instantiate(const std::shared_ptr<const Device>& device,
                                      const Graph& graph);

}  // namespace sinter

#endif  // SINTER_RUNTIME_DRIVER_HANDLES_H_
