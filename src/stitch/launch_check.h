// The resources that a stitched kernel's launch needs, and whether the chip has them.
#ifndef SINTER_SRC_STITCH_LAUNCH_CHECK_H_
#define SINTER_SRC_STITCH_LAUNCH_CHECK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/stitch/spec.h"

namespace sinter {

struct StitchBudget;  // body_work.h

struct StitchLaunch {
  bool cooperative = false;    // blocks wait for one another: all must be resident
  uint64_t scratch_bytes = 0;  // workspace for the kernel alone
};

// FAILED_PRECONDITION naming the field, its value and the bound: of the chip (shared memory,
// threads, clusters, resident blocks), or of code generation for this body. Every schedule of the
// search passes. RESOURCE_EXHAUSTED once `budget`, which may be null, is spent: it takes the visits
// of the code's program, or of each part's. `code` is that of `spec`, whose operands need no
// places.
absl::StatusOr<StitchLaunch> CheckStitchLaunch(const StitchSpec& spec, const StitchCode& code,
                                               const DeviceModel& model,
                                               StitchBudget* budget = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_LAUNCH_CHECK_H_
