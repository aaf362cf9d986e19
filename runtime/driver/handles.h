// Owners of driver handles. Each destroys its handle in the device's context and in relaxed capture
// mode.
#ifndef SINTER_RUNTIME_DRIVER_HANDLES_H_
#define SINTER_RUNTIME_DRIVER_HANDLES_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver.h"

namespace sinter {

// Makes the device's context current. Works on a thread that has none; costs one query where it is
// current already. Check status() before any call that needs the context.
class ContextScope {
 public:
  explicit ContextScope(const Device& device);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  const absl::Status& status() const { return status_; }

 private:
  const Device& device_;
  CUcontext previous_ = nullptr;
  bool pushed_ = false;
  absl::Status status_;
};

// Puts the thread into relaxed capture mode, in which calls that would break another stream's
// capture are allowed and leave that capture valid. Needs no current context.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver);
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  const absl::Status& status() const { return status_; }

 private:
  const Driver& driver_;
  CUstreamCaptureMode previous_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  absl::Status status_;
};

// Both: what every call off the launch path runs in.
class DriverScope {
 public:
  explicit DriverScope(const Device& device) : context_(device), relaxed_(device.driver()) {}
  const absl::Status& status() const {
    return context_.status().ok() ? relaxed_.status() : context_.status();
  }

 private:
  ContextScope context_;
  RelaxedCapture relaxed_;
};

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
