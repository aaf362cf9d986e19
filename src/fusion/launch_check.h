// LaunchCheck: the resources that a kernel's launch needs, and whether the chip has them.
#ifndef SINTER_SRC_FUSION_LAUNCH_CHECK_H_
#define SINTER_SRC_FUSION_LAUNCH_CHECK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/plan/kernel_code.h"

namespace sinter {

struct KernelLaunch {
  bool cooperative = false;    // blocks wait for one another: all must be resident
  uint64_t scratch_bytes = 0;  // workspace for the kernel alone; stitched kernels
};

// FAILED_PRECONDITION or INVALID_ARGUMENT naming the field, its value and the bound: a bound of the
// chip (shared memory, threads, clusters, resident blocks), or of code generation for these
// products or this body. Every schedule of the search passes.
// `code` is that of `spec`.
absl::StatusOr<KernelLaunch> CheckLaunch(const KernelSpec& spec, const KernelCode& code,
                                         const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_LAUNCH_CHECK_H_
