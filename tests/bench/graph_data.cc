#include "tests/bench/graph_data.h"

#include "tests/bench/chain_data.h"

namespace sinter::bench {
namespace {

constexpr uint64_t kBufferAlignment = 256;
constexpr uint8_t kPoisonByte = 0xff;  // a NaN in every floating type

uint64_t AlignedBuffer(uint64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GraphData>> GraphData::Make(Measurer* measurer, const Chain& chain,
                                                           int64_t m, uint64_t seed, int64_t sets) {
  SINTER_ASSIGN_OR_RETURN(std::vector<std::string> inputs, RandomInputs(chain, m, seed));
  return Make(measurer, chain, m, std::move(inputs), sets);
}

absl::StatusOr<std::unique_ptr<GraphData>> GraphData::Make(Measurer* measurer, const Chain& chain,
                                                           int64_t m,
                                                           std::vector<std::string> inputs,
                                                           int64_t sets) {
  std::unique_ptr<GraphData> data(new GraphData(measurer, chain));
  data->inputs_ = std::move(inputs);
  SINTER_RETURN_IF_ERROR(data->Allocate(m, sets));
  return data;
}

absl::Status GraphData::Allocate(int64_t m, int64_t sets) {
  sets_ = static_cast<size_t>(sets);
  const auto rotating = [&](uint64_t bytes) -> absl::StatusOr<Rotating> {
    const uint64_t step = AlignedBuffer(bytes);
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer all,
                            arena_.Allocate(step * static_cast<uint64_t>(sets)));
    return Rotating{all.ptr, step, bytes};
  };
  for (const std::string& input : inputs_) {
    SINTER_ASSIGN_OR_RETURN(const Rotating one, rotating(input.size()));
    SINTER_RETURN_IF_ERROR(UploadCopies(measurer_, one.first, input, one.step, sets));
    in_.push_back(one);
  }
  for (int i = 0; i < chain_.num_outputs(); ++i) {
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(chain_, i, m));
    SINTER_ASSIGN_OR_RETURN(const Rotating one, rotating(static_cast<uint64_t>(bytes)));
    out_.push_back(one);
  }
  return absl::OkStatus();
}

std::vector<DevicePtr> GraphData::CallerSet(size_t i, bool in_place) const {
  std::vector<DevicePtr> set(in_.size() + out_.size());
  const std::vector<int32_t>& order = chain_.InputOrder();
  for (size_t c = 0; c < in_.size(); ++c) set[static_cast<size_t>(order[c])] = in_[c].At(i);
  for (size_t o = 0; o < out_.size(); ++o) {
    const int32_t shared = chain_.outputs()[o].alias_input;
    const bool shares = in_place && shared >= 0;
    set[in_.size() + o] = shares ? in_[static_cast<size_t>(shared)].At(i) : out_[o].At(i);
  }
  return set;
}

DeviceBuffer GraphData::OutputBuffer(int i, bool in_place) const {
  const int32_t shared = chain_.outputs()[i].alias_input;
  const Rotating& one = in_place && shared >= 0 ? in_[shared] : out_[i];
  return {one.first, one.bytes};
}

absl::Status GraphData::Reset(bool inputs_too) {
  for (const Rotating& one : out_) {
    SINTER_RETURN_IF_ERROR(measurer_->Fill({one.first, one.bytes}, kPoisonByte));
  }
  for (size_t i = 0; inputs_too && i < in_.size(); ++i) {
    const DeviceBuffer buffer{in_[i].first, in_[i].bytes};
    SINTER_RETURN_IF_ERROR(measurer_->Upload(buffer, inputs_[i].data(), inputs_[i].size()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> GraphData::Download(bool in_place) {
  std::vector<std::string> outputs;
  for (int i = 0; i < chain_.num_outputs(); ++i) {
    const DeviceBuffer buffer = OutputBuffer(i, in_place);
    std::string bytes(buffer.bytes, '\0');
    SINTER_RETURN_IF_ERROR(measurer_->Download(&bytes[0], buffer, bytes.size()));
    outputs.push_back(std::move(bytes));
  }
  return outputs;
}

}  // namespace sinter::bench
