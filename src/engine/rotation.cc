#include "src/engine/rotation.h"

#include <algorithm>
#include <utility>

#include "src/base/status.h"
#include "src/engine/trial_data.h"
#include "src/engine/workspace.h"

namespace sinter {
namespace {

constexpr uint64_t kRotationBytes = uint64_t{240} << 20;
constexpr uint64_t kMaxSets = 16384;
constexpr uint64_t kUploadBytes = uint64_t{8} << 20;  // at least, in one step
constexpr size_t kAlignment = 256;

// Whether runs that follow one another take another copy of the buffer.
bool Rotates(const Chain& chain, size_t buffer) {
  if (chain.MatmulFlops(1) == 0) return true;
  const int i = static_cast<int>(buffer);
  return i < chain.num_inputs() && chain.input_op(i).constant;
}

}  // namespace

int RotationSets(uint64_t set_bytes) {
  const uint64_t sets = kRotationBytes / std::max<uint64_t>(set_bytes, 1) + 1;
  return static_cast<int>(std::min(sets, kMaxSets));
}

absl::StatusOr<std::unique_ptr<Rotation>> Rotation::Make(Measurer* measurer, const Chain& chain,
                                                         const Verifier& data) {
  std::unique_ptr<Rotation> rotation(new Rotation(measurer));
  std::string set;  // what rotates of one set, each buffer aligned; outputs are zero
  std::vector<int64_t> offsets(data.pointers().size(), -1);
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (!Rotates(chain, i)) continue;
    offsets[i] = static_cast<int64_t>(set.size());
    const size_t inputs = data.inputs().size();
    if (i < inputs) set += data.inputs()[i];
    if (i >= inputs) {
      SINTER_ASSIGN_OR_RETURN(const int64_t bytes,
                              OutputBytes(chain, static_cast<int>(i - inputs), data.rows()));
      set.resize(set.size() + static_cast<size_t>(bytes));
    }
    set.resize((set.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  rotation->sets_.push_back(data.pointers());
  const int more = set.empty() ? 0 : RotationSets(set.size()) - 1;
  SINTER_RETURN_IF_ERROR(rotation->AddSets(more, set, offsets, data.pointers()));
  return rotation;
}

// All in one allocation, so that thousands of small sets take no more memory than they hold.
absl::Status Rotation::AddSets(int count, const std::string& set,
                               const std::vector<int64_t>& offsets,
                               const std::vector<DevicePtr>& first) {
  if (count == 0) return absl::OkStatus();
  const uint64_t total = static_cast<uint64_t>(count) * set.size();
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer all, arena_.Allocate(total));
  std::string block = set;
  while (block.size() < kUploadBytes && block.size() < total) block += set;
  for (uint64_t at = 0; at < total; at += block.size()) {
    const uint64_t bytes = std::min<uint64_t>(block.size(), total - at);
    SINTER_RETURN_IF_ERROR(measurer_->Upload({all.ptr + at, bytes}, block.data(), bytes));
  }
  for (int i = 0; i < count; ++i) {
    std::vector<DevicePtr> pointers = first;
    for (size_t j = 0; j < pointers.size(); ++j) {
      if (offsets[j] < 0) continue;
      pointers[j] =
          all.ptr + static_cast<uint64_t>(i) * set.size() + static_cast<uint64_t>(offsets[j]);
    }
    sets_.push_back(std::move(pointers));
  }
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
