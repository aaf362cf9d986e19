// Prepare: the shared half of sinter_prepare, _many and _async.
#ifndef SINTER_SRC_CAPI_PREPARE_H_
#define SINTER_SRC_CAPI_PREPARE_H_

#include <chrono>
#include <functional>
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

// Prepares that nobody waits for: the half of sinter_pending that slots use.

// Called with a prepare's end, borrowed, by its thread, before anybody can learn of it: `plan` or
// `error` is set; both are null where memory lacked for an error.
using PrepareEnd = std::function<void(sinter_plan* plan, sinter_status code, sinter_error* error)>;

// A prepare under way, on a thread of its own; with settings.base.background it waits in the
// context's queue of builds or of measurements. `end` may be empty. RESOURCE_EXHAUSTED: no thread
// could be started.
absl::StatusOr<sinter_pending*> StartPrepare(const sinter_context* context,
                                             const sinter_chain* chain, int64_t m,
                                             const PrepareSettings& settings, PrepareEnd end);
// One that has ended with `plan`, of which it takes a reference.
sinter_pending* EndedPrepare(sinter_plan* plan);

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_PREPARE_H_
