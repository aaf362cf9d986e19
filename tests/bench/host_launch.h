// What the host spends on a launch compared with the driver's own call: the same kernels with the
// same arguments by a bare cuLaunchKernelEx.
#pragma once

#include <cuda.h>

#include "runtime/driver/driver.h"
#include "src/base/ports.h"
#include "tests/support/common.h"

namespace sinter::bench {

// `real` with launches that can be recorded; they cost one look at a variable more. One at a time
// in a process: a table of C functions has nowhere to keep a pointer.
DriverTable RecordingTable(const DriverTable& real);

// One call of cuLaunchKernelEx, everything copied.
struct BareLaunch {
  CUfunction function = nullptr;
  CUlaunchConfig config{};  // without stream and attributes
  std::vector<CUlaunchAttribute> attributes;
  std::vector<std::string> params;
};

// What `enqueue` hands to the driver on this thread. UNAVAILABLE where the driver does not tell the
// sizes of arguments (before 12.4).
absl::StatusOr<std::vector<BareLaunch>> RecordLaunches(
    const std::function<absl::Status()>& enqueue);

// CPU microseconds of one call of each on the stream, by turns: medians of batches that fit the
// driver's queue.
struct HostTimes {
  double launch_us = 0;    // the library's launch of a plan
  double bare_us = 0;      // all its kernels, using only the driver
  double changing_us = 0;  // the library's, with other rows at every launch
};
// `launch` enqueues the plan for so many rows fewer than it was recorded with.
absl::StatusOr<HostTimes> MeasureHost(
    Measurer* measurer, const std::vector<BareLaunch>& bare,
    const std::function<absl::Status(StreamHandle, int64_t fewer)>& launch);

// Microseconds that a launch of `kernels` kernels may take in addition to the driver's own calls.
double HostAimUs(size_t kernels);

}  // namespace sinter::bench
