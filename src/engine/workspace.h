// Workspace: what a caller's workspace must be, and which part must be clear before its first
// launch.
#ifndef SINTER_SRC_ENGINE_WORKSPACE_H_
#define SINTER_SRC_ENGINE_WORKSPACE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "src/base/ports.h"
#include "src/plan/plan.h"

namespace sinter {

constexpr uint64_t kWorkspaceAlignment = 128;  // bytes

// INVALID_ARGUMENT naming what is wrong with a workspace that a caller gave; `bytes` is what the
// caller has.
absl::Status CheckWorkspace(const Plan& plan, DevicePtr workspace, uint64_t bytes);

// Enqueues the clearing of the header: launch epoch and ready flags, shared by all plans that use
// the workspace in turn. They carry the epoch of a launch, so this is needed once, not per launch.
// The caller has checked the workspace.
absl::Status ClearHeader(const Plan& plan, Loader& loader, DevicePtr workspace,
                         StreamHandle stream);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_WORKSPACE_H_
