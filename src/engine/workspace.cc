#include "src/engine/workspace.h"

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {

std::vector<WorkspaceRegion> FlagRegions(const Plan& plan) {
  std::vector<WorkspaceRegion> regions;
  for (const PlannedKernel& kernel : plan.kernels) {
    const KernelSpec& spec = kernel.spec;
    const int64_t bytes = SizesOf(spec.problem, spec.schedule).flag_bytes;
    if (bytes > 0) regions.push_back({spec.workspace_flags_offset, static_cast<uint64_t>(bytes)});
  }
  return regions;
}

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
    return absl::InvalidArgumentError(
        absl::StrCat("workspace has ", bytes, " bytes, the plan needs ", plan.workspace_bytes));
  }
  return absl::OkStatus();
}

absl::Status ClearFlags(const Plan& plan, Loader& loader, DevicePtr workspace,
                        StreamHandle stream) {
  for (const WorkspaceRegion& region : FlagRegions(plan)) {
    if (region.offset > plan.workspace_bytes ||
        region.bytes > plan.workspace_bytes - region.offset) {
      return absl::InternalError(absl::StrCat("flags at ", region.offset, " + ", region.bytes,
                                              " lie outside a workspace of ",
                                              plan.workspace_bytes));
    }
    SINTER_RETURN_IF_ERROR(loader.MemsetAsync(workspace + region.offset, 0, region.bytes, stream));
  }
  return absl::OkStatus();
}

}  // namespace sinter
