// The Loader port on the driver, and ReleaseQueue: objects that must not die where their last owner
// let them go.
#ifndef SINTER_RUNTIME_LAUNCH_LOADER_H_
#define SINTER_RUNTIME_LAUNCH_LOADER_H_

#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/driver/driver.h"
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

// Thread-safe. Kernels keep the device, not the loader. An object tied to a graph that dies is
// released at the next Load or Bind, or when the loader retires or dies; after that by a
// short-lived thread. Retire it before its owner goes when such an object keeps the loader alive.
absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(std::shared_ptr<const Device> device);

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_LOADER_H_
