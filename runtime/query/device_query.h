// What the driver says about a device, as plain data.
#ifndef SINTER_RUNTIME_QUERY_DEVICE_QUERY_H_
#define SINTER_RUNTIME_QUERY_DEVICE_QUERY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/driver/device.h"

namespace sinter {

struct DeviceInfo {
  std::string name;  // "NVIDIA H200"
  int cc_major = 0;
  int cc_minor = 0;
  int sm_count = 0;
  int64_t l2_bytes = 0;
  int64_t shared_bytes_per_block = 0;  // opt-in maximum
  double clock_mhz = 0;
  int64_t memory_bytes = 0;
  int driver_version = 0;  // 13000 for 13.0

  std::string Arch() const;  // "sm_90"
};

// Needs no current context.
absl::StatusOr<DeviceInfo> QueryDevice(const Device& device);

}  // namespace sinter

#endif  // SINTER_RUNTIME_QUERY_DEVICE_QUERY_H_
