#include "src/engine/rotation.h"

#include <algorithm>
#include <utility>

#include "src/base/status.h"
#include "src/engine/workspace.h"

namespace sinter {
namespace {

constexpr uint64_t kRotationBytes = uint64_t{240} << 20;
constexpr uint64_t kMaxSets = 64;

bool IsConstant(const Chain& chain, size_t buffer) {
  const int i = static_cast<int>(buffer);
  return i < chain.num_inputs() && chain.input_op(i).constant;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Rotation>> Rotation::Make(Measurer* measurer, const Chain& chain,
                                                         const Verifier& data) {
  std::unique_ptr<Rotation> rotation(new Rotation(measurer));
  uint64_t constant_bytes = 1;
  for (size_t i = 0; i < data.pointers().size(); ++i) {
    if (IsConstant(chain, i)) constant_bytes += data.inputs()[i].size();
  }
  rotation->sets_.push_back(data.pointers());
  const uint64_t sets = std::min(kRotationBytes / constant_bytes + 1, kMaxSets);
  while (rotation->sets_.size() < sets) {
    SINTER_RETURN_IF_ERROR(rotation->AddSet(chain, data));
  }
  return rotation;
}

absl::Status Rotation::AddSet(const Chain& chain, const Verifier& data) {
  std::vector<DevicePtr> set = data.pointers();
  for (size_t i = 0; i < set.size(); ++i) {
    if (!IsConstant(chain, i)) continue;
    const std::string& bytes = data.inputs()[i];
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer copy, arena_.Allocate(bytes.size()));
    SINTER_RETURN_IF_ERROR(measurer_->Upload(copy, bytes.data(), bytes.size()));
    set[i] = copy.ptr;
  }
  sets_.push_back(std::move(set));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::shared_ptr<const BoundPlan>>> Rotation::Bind(
    const LoadedPlanPtr& plan, Loader& loader) {
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace,
                          arena_.Allocate(plan->plan.workspace_bytes));
  SINTER_RETURN_IF_ERROR(measurer_->RunAndWait(
      [&](StreamHandle stream) { return ClearHeader(plan->plan, loader, workspace.ptr, stream); }));
  std::vector<std::shared_ptr<const BoundPlan>> bound;
  for (const std::vector<DevicePtr>& set : sets_) {
    SINTER_ASSIGN_OR_RETURN(std::shared_ptr<const BoundPlan> one,
                            BindPlan(plan, set, workspace.ptr));
    bound.push_back(std::move(one));
  }
  return bound;
}

}  // namespace sinter
