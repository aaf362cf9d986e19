#include "runtime/driver/device.h"

#include "absl/strings/str_cat.h"
#include "runtime/driver/handles.h"
#include "src/base/status.h"

namespace sinter {

absl::StatusOr<std::shared_ptr<const Device>> Device::Open(std::shared_ptr<const Driver> driver,
                                                           int ordinal) {
  SINTER_ASSIGN_OR_RETURN(const int count, driver->DeviceCount());
  if (ordinal < 0 || ordinal >= count) {
    return absl::InvalidArgumentError(absl::StrCat("device ordinal ", ordinal,
                                                   " is out of range: the driver shows ", count,
                                                   count == 1 ? " device" : " devices"));
  }
  std::shared_ptr<Device> device(new Device(std::move(driver), ordinal));
  SINTER_RETURN_IF_ERROR(device->Start());
  return std::shared_ptr<const Device>(std::move(device));
}

absl::Status Device::Start() {
  RelaxedCapture relaxed(*driver_);
  SINTER_RETURN_IF_ERROR(relaxed.status());
  const Driver& driver = *driver_;
  SINTER_RETURN_IF_ERROR(driver.Check(driver->DeviceGet(&handle_, ordinal_), "cuDeviceGet"));
  SINTER_RETURN_IF_ERROR(ReadLimits());
  CUcontext context = nullptr;
  SINTER_RETURN_IF_ERROR(
      driver.Check(driver->DevicePrimaryCtxRetain(&context, handle_), "cuDevicePrimaryCtxRetain"));
  context_ = context;
  return absl::OkStatus();
}

absl::Status Device::ReadLimits() {
  int cooperative = 0;
  const struct {
    CUdevice_attribute attribute;
    int* value;
  } rows[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &limits_.cc_major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &limits_.cc_minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &limits_.sm_count},
      {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &limits_.max_threads_per_block},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, &limits_.max_block[0]},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, &limits_.max_block[1]},
      {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, &limits_.max_block[2]},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, &limits_.max_grid[0]},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, &limits_.max_grid[1]},
      {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, &limits_.max_grid[2]},
      {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &limits_.max_shared_bytes},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &limits_.l2_bytes},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &limits_.clock_khz},
      {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, &cooperative},
  };
  for (const auto& row : rows) {
    SINTER_RETURN_IF_ERROR(driver_->Check(
        (*driver_)->DeviceGetAttribute(row.value, row.attribute, handle_), "cuDeviceGetAttribute"));
  }
  limits_.cooperative = cooperative != 0;
  return absl::OkStatus();
}

Device::~Device() {
  if (context_ == nullptr) return;
  RelaxedCapture relaxed(*driver_);
  (*driver_)->DevicePrimaryCtxRelease(handle_);
}

}  // namespace sinter
