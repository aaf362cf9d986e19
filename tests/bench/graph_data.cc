#include "tests/bench/graph_data.h"

namespace sinter::bench {
namespace {

constexpr uint64_t kBufferAlignment = 1024;
constexpr uint64_t kStagingBytes = 16 << 20;
constexpr uint8_t kPoisonByte = 0xff;  // a NaN in every floating type

uint64_t AlignedBuffer(uint64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

}  // namespace

int64_t RotationSets(int64_t constant_bytes) {
  return std::max<int64_t>(2, kRotationBytes / std::max<int64_t>(constant_bytes, 1) + 1);
}

absl::Status UploadCopies(Measurer* measurer, DevicePtr to, const std::string& bytes, uint64_t step,
                          int64_t copies) {
  if (bytes.empty()) return absl::OkStatus();
  const int64_t together =
      std::clamp<int64_t>(static_cast<int64_t>(kStagingBytes / step), 1, copies);
  std::string staging(step * static_cast<uint64_t>(together - 1) + bytes.size(), '\0');
  for (int64_t i = 0; i < together; ++i) {
    std::copy(bytes.begin(), bytes.end(), staging.begin() + i * static_cast<int64_t>(step));
  }
  for (int64_t done = 0; done < copies; done += together) {
    const int64_t now = std::min(together, copies - done);
    const DeviceBuffer part{to + static_cast<uint64_t>(done) * step,
                            static_cast<uint64_t>(now - 1) * step + bytes.size()};
    SINTER_RETURN_IF_ERROR(measurer->Upload(part, staging.data(), part.bytes));
  }
  return absl::OkStatus();
}

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

absl::StatusOr<std::unique_ptr<GraphData>> GraphData::MakeOfWeights(Measurer* measurer,
                                                                    const Chain& chain, int64_t m,
                                                                    uint64_t seed, bool rotate) {
  if (chain.num_outputs() != 1) return absl::InvalidArgumentError("the chain has several outputs");
  std::unique_ptr<GraphData> data(new GraphData(measurer, chain));
  SINTER_ASSIGN_OR_RETURN(data->inputs_, RandomInputs(chain, m, seed));
  int64_t constants = 0;
  for (int i = 0; i < chain.num_inputs(); ++i) {
    if (chain.input_op(i).constant) constants += static_cast<int64_t>(data->inputs_[i].size());
  }
  SINTER_RETURN_IF_ERROR(data->Allocate(m, rotate ? RotationSets(constants) : 1, true));
  return data;
}

absl::Status GraphData::Allocate(int64_t m, int64_t sets, bool only_constants) {
  sets_ = static_cast<size_t>(sets);
  const auto tensor = [&](uint64_t bytes, bool rotates) -> absl::StatusOr<Rotating> {
    const uint64_t step = AlignedBuffer(bytes);
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer all,
                            arena_.Allocate(rotates ? step * static_cast<uint64_t>(sets) : bytes));
    return Rotating{all.ptr, rotates ? step : 0, bytes};
  };
  for (int i = 0; i < chain_.num_inputs(); ++i) {
    const std::string& input = inputs_[static_cast<size_t>(i)];
    const bool rotates = !only_constants || chain_.input_op(i).constant;
    SINTER_ASSIGN_OR_RETURN(const Rotating one, tensor(input.size(), rotates));
    SINTER_RETURN_IF_ERROR(
        UploadCopies(measurer_, one.first, input, AlignedBuffer(input.size()), rotates ? sets : 1));
    in_.push_back(one);
  }
  for (int i = 0; i < chain_.num_outputs(); ++i) {
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(chain_, i, m));
    SINTER_ASSIGN_OR_RETURN(const Rotating one,
                            tensor(static_cast<uint64_t>(bytes), !only_constants));
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

std::vector<DevicePtr> GraphData::CanonicalSet(size_t i) const {
  std::vector<DevicePtr> set;
  for (const Rotating& one : in_) set.push_back(one.At(i));
  for (const Rotating& one : out_) set.push_back(one.At(i));
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

absl::StatusOr<std::string> GraphData::DownloadOutput() {
  SINTER_ASSIGN_OR_RETURN(std::vector<std::string> outputs, Download(false));
  return std::move(outputs[0]);
}

}  // namespace sinter::bench
