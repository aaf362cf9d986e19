// What probes measured on a device, made into a model of it.
#ifndef SINTER_RUNTIME_QUERY_MEASURED_MODEL_H_
#define SINTER_RUNTIME_QUERY_MEASURED_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/measure/probes.h"
#include "src/base/device_model.h"

namespace sinter {

// `nearest`, what ChooseModel says of the device, with the figures that were measured. The others
// stay and say which model they are from; fitted ones are never measured, since what they make up
// for is in no probe. Named "h200-measured". A pure function. INTERNAL naming the figure when a
// probe makes no sense, such as one that took no longer for twice the work.
absl::StatusOr<DeviceModel> MeasuredModel(const DeviceModel& nearest, const ProbeTimings& timings);

// The model's text; behind each measured figure what `nearest` says.
std::string MeasuredModelText(const DeviceModel& measured, const DeviceModel& nearest,
                              const std::string& device);

}  // namespace sinter

#endif  // SINTER_RUNTIME_QUERY_MEASURED_MODEL_H_
