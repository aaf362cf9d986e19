// DeviceInfo: a device as the driver describes it. ChooseModel: the DeviceModel for it.
#ifndef SINTER_RUNTIME_QUERY_MODEL_CHOICE_H_
#define SINTER_RUNTIME_QUERY_MODEL_CHOICE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/driver/driver.h"
#include "runtime/measure/probes.h"
#include "src/base/device_model.h"

namespace sinter {

// A device as the driver describes it.
struct DeviceInfo {
  std::string name;  // "NVIDIA H200"
  int cc_major = 0;
  int cc_minor = 0;
  int sm_count = 0;
  int64_t l2_bytes = 0;
  int64_t shared_bytes_per_block = 0;  // opt-in maximum
  double clock_mhz = 0;
  int64_t memory_bytes = 0;
  int driver_version = 0;  // 13000 means 13.0

  int Capability() const { return cc_major * 10 + cc_minor; }
  std::string Arch() const;  // of its code, as in a model: "sm_90a", "sm_80"
};

// Needs no current context.
absl::StatusOr<DeviceInfo> QueryDevice(const Device& device);

struct ModelChoice {
  DeviceModel model;
  std::string warning;  // "" when the device has a model of its own; else one line to log once
};

// A pure function of `info`. A device with a built-in model's name and SM count gets
// that model unchanged: other driver figures (clock under a power cap, fused-off L2) must not make
// two ranks plan differently. Another gets the model of the nearest architecture, and of these the
// nearest one, with architecture, SM count, L2, clock and shared memory replaced and `measured`
// cleared. FAILED_PRECONDITION naming the arch when no code is generated for it.
absl::StatusOr<ModelChoice> ChooseModel(const DeviceInfo& info);

// The model in `text`, a model file that somebody named for the device. INVALID_ARGUMENT when it is
// not a model; FAILED_PRECONDITION naming the field when it is of another architecture, has another
// number of SMs, or gives a block more shared memory. A model of "compute_80" describes all devices
// from 8.0 on with at least its SMs.
absl::StatusOr<DeviceModel> NamedModel(absl::string_view text, const DeviceInfo& info);

// `nearest`, what ChooseModel says of the device, with the figures that were measured. The others
// stay and say which model they are from; fitted ones are never measured, since what they make up
// for is in no probe. Figures that only Hopper's kernels use are measured only of Hopper. Named
// "h200-measured". A pure function. INTERNAL naming the figure when a probe makes no sense, such as
// one that took no longer for twice the work.
absl::StatusOr<DeviceModel> MeasuredModel(const DeviceModel& nearest, const ProbeTimings& timings);

// The model's text; a comment after each measured figure shows `nearest`'s figure.
std::string MeasuredModelText(const DeviceModel& measured, const DeviceModel& nearest,
                              const std::string& device);

}  // namespace sinter

#endif  // SINTER_RUNTIME_QUERY_MODEL_CHOICE_H_
