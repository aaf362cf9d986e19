// Every probe of a device, one after another.
#ifndef SINTER_RUNTIME_MEASURE_PROBES_H_
#define SINTER_RUNTIME_MEASURE_PROBES_H_

#include "absl/status/statusor.h"
#include "runtime/measure/probe_runner.h"
#include "runtime/measure/probe_timings.h"

namespace sinter {

// Takes some seconds, most of them compiling, and 24 MiB of device memory an SM. Errors are those
// of the ports. Nothing else should run on the device.
absl::StatusOr<ProbeTimings> RunProbes(int sm_count, ProbeRunner* runner);

}  // namespace sinter

#endif  // SINTER_RUNTIME_MEASURE_PROBES_H_
