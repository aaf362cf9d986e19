#include "src/engine/workspace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"

namespace sinter {

absl::Status CheckWorkspace(const Plan& plan, DevicePtr workspace, uint64_t bytes) {
  if (plan.workspace_bytes == 0) return absl::OkStatus();
  if (workspace == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("workspace is null, the plan needs ", plan.workspace_bytes, " bytes"));
  }
  if (workspace % kWorkspaceAlignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat("workspace is at 0x", absl::Hex(workspace),
                                                   ", must be aligned to ", kWorkspaceAlignment));
  }
  if (bytes < plan.workspace_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("workspace has ", Counted(bytes, "byte"),
                                                   ", the plan needs ", plan.workspace_bytes));
  }
  return absl::OkStatus();
}

absl::Status ClearHeader(const Plan& plan, Loader& loader, DevicePtr workspace,
                         StreamHandle stream) {
  const uint64_t bytes = std::min(plan.workspace_bytes, kWorkspaceFlagBytes);
  return bytes == 0 ? absl::OkStatus() : loader.MemsetAsync(workspace, 0, bytes, stream);
}

}  // namespace sinter
