#include "runtime/query/device_query.h"

#include "absl/strings/str_cat.h"
#include "runtime/driver/scopes.h"
#include "src/base/status.h"

namespace sinter {

std::string DeviceInfo::Arch() const { return absl::StrCat("sm_", cc_major, cc_minor); }

absl::StatusOr<DeviceInfo> QueryDevice(const Device& device) {
  const Driver& driver = device.driver();
  RelaxedCapture relaxed(driver);
  SINTER_RETURN_IF_ERROR(relaxed.status());
  char name[256] = {};
  size_t memory = 0;
  SINTER_RETURN_IF_ERROR(driver.Check(
      driver->DeviceGetName(name, sizeof(name) - 1, device.handle()), "cuDeviceGetName"));
  SINTER_RETURN_IF_ERROR(
      driver.Check(driver->DeviceTotalMem(&memory, device.handle()), "cuDeviceTotalMem"));
  SINTER_ASSIGN_OR_RETURN(const int version, driver.Version());
  const DeviceLimits& limits = device.limits();
  DeviceInfo info;
  info.name = name;
  info.cc_major = limits.cc_major;
  info.cc_minor = limits.cc_minor;
  info.sm_count = limits.sm_count;
  info.l2_bytes = limits.l2_bytes;
  info.shared_bytes_per_block = limits.max_shared_bytes;
  info.clock_mhz = limits.clock_khz / 1e3;
  info.memory_bytes = static_cast<int64_t>(memory);
  info.driver_version = version;
  return info;
}

}  // namespace sinter
