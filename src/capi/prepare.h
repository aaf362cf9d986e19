// Prepare: the shared half of sinter_prepare, _many and _async.
#ifndef SINTER_SRC_CAPI_PREPARE_H_
#define SINTER_SRC_CAPI_PREPARE_H_

#include <chrono>
#include <memory>

#include "src/capi/objects.h"

namespace sinter::capi {

// Options read once; then many prepares may use them. `cancel` is the caller's.
struct PrepareSettings {
  PrepareOptions base;
  sinter_cancel* cancel = nullptr;  // what base.cancel points into
  sinter_stream stream = nullptr;
  uint32_t threads = 0;
  bool has_deadline = false;
  std::chrono::steady_clock::time_point deadline;
};

absl::StatusOr<PrepareSettings> ReadPrepareSettings(const sinter_context* context,
                                                    const sinter_prepare_options* options);
// One plan. The deadline is what is left of the settings'.
absl::StatusOr<sinter_plan*> PreparePlan(const sinter_context& context, const Chain& chain,
                                         int64_t m, const PrepareSettings& settings);
// A flag that a request on `cancel` sets too.
absl::Status Follow(sinter_cancel* cancel, const std::shared_ptr<std::atomic<bool>>& flag);
absl::Status RefuseCapture(const sinter_context& context, sinter_stream stream);

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_PREPARE_H_
