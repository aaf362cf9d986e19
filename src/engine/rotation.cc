#include "src/engine/rotation.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/engine/bound_plan.h"
#include "src/engine/trial_data.h"

namespace sinter {
namespace {

constexpr uint64_t kRotationBytes = uint64_t{240} << 20;
constexpr uint64_t kMaxSets = 16384;
constexpr uint64_t kUploadBytes = uint64_t{8} << 20;  // least size of one upload
constexpr size_t kAlignment = 256;

// Whether each run takes the next copy of the buffer.
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
  Layout layout;
  layout.offsets.assign(data.pointers().size(), -1);
  layout.num_inputs = data.inputs().size();
  for (size_t i = 0; i < layout.offsets.size(); ++i) {
    if (!Rotates(chain, i)) continue;
    if (i < layout.num_inputs) {
      layout.offsets[i] = static_cast<int64_t>(layout.inputs.size());
      layout.inputs += data.inputs()[i];
      layout.inputs.resize(RoundUp(layout.inputs.size(), kAlignment));
      continue;
    }
    const int output = static_cast<int>(i - layout.num_inputs);
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(chain, output, data.rows()));
    layout.offsets[i] = static_cast<int64_t>(layout.output_bytes);
    layout.output_bytes += RoundUp(bytes, kAlignment);
  }
  rotation->sets_.push_back(data.pointers());
  const uint64_t bytes = layout.inputs.size() + layout.output_bytes;
  SINTER_RETURN_IF_ERROR(rotation->AddSets(bytes == 0 ? 0 : RotationSets(bytes) - 1, layout));
  return rotation;
}

absl::Status Rotation::UploadInputs(DevicePtr to, uint64_t total, const std::string& inputs) {
  if (total == 0) return absl::OkStatus();
  std::string block = inputs;
  while (block.size() < kUploadBytes && block.size() < total) block += inputs;
  for (uint64_t at = 0; at < total; at += block.size()) {
    const uint64_t bytes = std::min<uint64_t>(block.size(), total - at);
    SINTER_RETURN_IF_ERROR(measurer_->Upload({to + at, bytes}, block.data(), bytes));
  }
  return absl::OkStatus();
}

// One allocation for all sets, so that thousands of small sets take no more memory than they hold:
// the inputs of all sets, then their outputs.
absl::Status Rotation::AddSets(int count, const Layout& layout) {
  if (count == 0) return absl::OkStatus();
  const uint64_t input_bytes = layout.inputs.size();
  const uint64_t all_inputs = static_cast<uint64_t>(count) * input_bytes;
  SINTER_ASSIGN_OR_RETURN(
      const DeviceBuffer all,
      arena_.Allocate(all_inputs + static_cast<uint64_t>(count) * layout.output_bytes));
  SINTER_RETURN_IF_ERROR(UploadInputs(all.ptr, all_inputs, layout.inputs));
  const std::vector<DevicePtr> first = sets_.front();
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i) {
    std::vector<DevicePtr> pointers = first;
    for (size_t j = 0; j < pointers.size(); ++j) {
      if (layout.offsets[j] < 0) continue;
      const DevicePtr set = j < layout.num_inputs ? all.ptr + i * input_bytes
                                                  : all.ptr + all_inputs + i * layout.output_bytes;
      pointers[j] = set + static_cast<uint64_t>(layout.offsets[j]);
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

absl::StatusOr<std::vector<double>> TimeInTurns(
    int count, int rounds, const std::function<absl::StatusOr<double>(int)>& time,
    const std::function<bool()>& go_on) {
  std::vector<std::vector<double>> times(static_cast<size_t>(count));
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> one;
    for (int i = 0; i < count && go_on(); ++i) {
      SINTER_ASSIGN_OR_RETURN(const double us, time(i));
      one.push_back(us);
    }
    if (one.size() < times.size()) break;
    for (size_t i = 0; i < times.size(); ++i) times[i].push_back(one[i]);
  }
  std::vector<double> medians;
  for (std::vector<double>& all : times) {
    if (all.empty()) return std::vector<double>();
    medians.push_back(Median(std::move(all)));
  }
  return medians;
}

}  // namespace sinter
