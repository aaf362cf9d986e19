// The Measurer port on the driver: device memory and timing.
#ifndef SINTER_RUNTIME_MEASURE_MEASURER_H_
#define SINTER_RUNTIME_MEASURE_MEASURER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "runtime/driver/driver.h"
#include "src/base/ports.h"

namespace sinter {

// One thread at a time. Everything runs on an own stream that does not synchronise with the legacy
// one, and each call but TimeGraph's enqueues waits for its work. Buffers are the caller's to free.
absl::StatusOr<std::unique_ptr<Measurer>> MakeMeasurer(std::shared_ptr<const Device> device);

}  // namespace sinter

#endif  // SINTER_RUNTIME_MEASURE_MEASURER_H_
