// Single flight across processes: waiting for the store's lock without going deaf to cancel and
// deadline.
#ifndef SINTER_SRC_ENGINE_BUILD_LOCK_H_
#define SINTER_SRC_ENGINE_BUILD_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "src/base/ports.h"
#include "src/base/trace.h"
#include "src/engine/control.h"

namespace sinter {

// Waits until this process may build `key`, for a minute at most: after that, or where nothing can
// be locked, the handle is null and the build goes ahead, since a lost lock costs one duplicate
// build. CANCELLED or DEADLINE_EXCEEDED.
absl::StatusOr<std::shared_ptr<void>> AwaitBuildLock(Store& store, RecordKind kind,
                                                     const std::string& key,
                                                     const BuildControl& control, Trace* trace);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_BUILD_LOCK_H_
