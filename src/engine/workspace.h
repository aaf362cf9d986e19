// Workspace: which parts of it must be clear before the first launch.
#ifndef SINTER_SRC_ENGINE_WORKSPACE_H_
#define SINTER_SRC_ENGINE_WORKSPACE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "src/base/ports.h"
#include "src/plan/plan.h"

namespace sinter {

constexpr uint64_t kWorkspaceAlignment = 128;  // bytes

struct WorkspaceRegion {
  uint64_t offset = 0, bytes = 0;
};

// The ready flags of the plan's kernels. Flags carry a launch epoch, so they are cleared once, not
// per launch.
std::vector<WorkspaceRegion> FlagRegions(const Plan& plan);

// INVALID_ARGUMENT naming what is wrong with a workspace that a caller gave; `bytes` is what the
// caller has.
absl::Status CheckWorkspace(const Plan& plan, DevicePtr workspace, uint64_t bytes);

// Enqueues the clearing. The caller has checked the workspace.
absl::Status ClearFlags(const Plan& plan, Loader& loader, DevicePtr workspace, StreamHandle stream);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_WORKSPACE_H_
