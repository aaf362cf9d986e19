// Which DeviceModel describes a device.
#ifndef SINTER_RUNTIME_QUERY_MODEL_CHOICE_H_
#define SINTER_RUNTIME_QUERY_MODEL_CHOICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/query/device_query.h"
#include "src/base/device_model.h"

namespace sinter {

struct ModelChoice {
  DeviceModel model;
  std::string warning;  // "" when the device has a model of its own; else one line to log once
};

// A pure function of `info`. A device whose name and SM count are those of a built-in model gets
// that model unchanged: what else the driver says (clock under a power cap, fused-off L2) must not
// make two ranks plan differently. Another Hopper gets the nearest model with SM count, L2 and
// clock replaced and `measured` cleared. FAILED_PRECONDITION naming the arch when it is not sm_90.
absl::StatusOr<ModelChoice> ChooseModel(const DeviceInfo& info);

// The model in `text`, a model file that somebody named for the device. INVALID_ARGUMENT when it is
// none; FAILED_PRECONDITION naming the field when it is of another architecture, has another number
// of SMs, or gives a block more shared memory.
absl::StatusOr<DeviceModel> NamedModel(absl::string_view text, const DeviceInfo& info);

}  // namespace sinter

#endif  // SINTER_RUNTIME_QUERY_MODEL_CHOICE_H_
