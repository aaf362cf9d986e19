// Prepares that nobody waits for: the half of sinter_pending that slots use.
#ifndef SINTER_SRC_CAPI_PENDING_H_
#define SINTER_SRC_CAPI_PENDING_H_

#include <functional>

#include "src/capi/prepare.h"

namespace sinter::capi {

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

#endif  // SINTER_SRC_CAPI_PENDING_H_
