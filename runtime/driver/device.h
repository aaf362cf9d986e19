// Device: one GPU of the process, its retained primary context and its limits.
#ifndef SINTER_RUNTIME_DRIVER_DEVICE_H_
#define SINTER_RUNTIME_DRIVER_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "runtime/driver/driver.h"

namespace sinter {

// What the driver says about the chip. Used for checks and for reports, never to choose a plan.
struct DeviceLimits {
  int cc_major = 0;
  int cc_minor = 0;
  int sm_count = 0;
  int max_threads_per_block = 0;
  int max_block[3] = {0, 0, 0};
  int max_grid[3] = {0, 0, 0};
  int max_shared_bytes = 0;  // per block, opt-in, static and dynamic together
  int l2_bytes = 0;
  int clock_khz = 0;
  bool cooperative = false;
};

// Immutable and thread-safe. Everything that lives on a GPU holds one of these, so two GPUs in one
// process never mix. Opening and closing leave the calling thread's current context and capture
// mode as they were.
class Device {
 public:
  // INVALID_ARGUMENT naming the number of devices when there is no such ordinal; kDriver when a
  // call fails.
  static absl::StatusOr<std::shared_ptr<const Device>> Open(std::shared_ptr<const Driver> driver,
                                                            int ordinal);
  // Releases the primary context. Not to be reached from a CUDA callback.
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return *driver_; }
  int ordinal() const { return ordinal_; }
  CUdevice handle() const { return handle_; }
  CUcontext context() const { return context_; }
  const DeviceLimits& limits() const { return limits_; }

 private:
  Device(std::shared_ptr<const Driver> driver, int ordinal)
      : driver_(std::move(driver)), ordinal_(ordinal) {}
  absl::Status Start();
  absl::Status ReadLimits();

  const std::shared_ptr<const Driver> driver_;
  const int ordinal_;
  CUdevice handle_ = 0;
  CUcontext context_ = nullptr;  // null until retained
  DeviceLimits limits_;
};

}  // namespace sinter

#endif  // SINTER_RUNTIME_DRIVER_DEVICE_H_
