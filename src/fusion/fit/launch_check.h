// LaunchCheck: what a launch of a kernel takes of the chip, and whether it may.
#ifndef SINTER_SRC_FUSION_FIT_LAUNCH_CHECK_H_
#define SINTER_SRC_FUSION_FIT_LAUNCH_CHECK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/plan/plan.h"

namespace sinter {

struct KernelLaunch {
  bool cooperative = false;    // blocks meet: all must be resident at once
  uint64_t scratch_bytes = 0;  // of the workspace, for the kernel itself; of stitched kernels
};

// FAILED_PRECONDITION or INVALID_ARGUMENT naming the field, its value and the bound: of the chip
// (shared memory, threads, clusters, blocks that wait for one another), or of what generated code
// can do with these products or this body. What the search offers passes.
absl::StatusOr<KernelLaunch> CheckLaunch(const KernelSpec& spec, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FIT_LAUNCH_CHECK_H_
