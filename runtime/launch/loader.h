// The Loader port on the driver.
#ifndef SINTER_RUNTIME_LAUNCH_LOADER_H_
#define SINTER_RUNTIME_LAUNCH_LOADER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/driver/device.h"
#include "src/base/ports.h"

namespace sinter {

// Thread-safe. Kernels keep the device, not the loader. An object tied to a graph that dies is
// released at the next Load or Bind, or when the loader retires or dies; after that by a
// short-lived thread. Retire it before its owner goes when such an object keeps the loader alive.
absl::StatusOr<std::unique_ptr<Loader>> MakeLoader(std::shared_ptr<const Device> device);

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_LOADER_H_
