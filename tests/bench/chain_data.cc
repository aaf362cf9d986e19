#include "tests/bench/chain_data.h"

namespace sinter::bench {
namespace {

constexpr uint64_t kAlignment = 1024;
constexpr uint64_t kStagingBytes = 16 << 20;
constexpr uint8_t kPoison = 0xff;  // a NaN in every floating type

uint64_t Aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

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

absl::StatusOr<std::unique_ptr<ChainData>> ChainData::Make(Measurer* measurer, const Chain& chain,
                                                           int64_t m, uint64_t seed, bool rotate) {
  if (chain.num_outputs() != 1) return absl::InvalidArgumentError("the chain has several outputs");
  std::unique_ptr<ChainData> data(new ChainData(measurer));
  SINTER_ASSIGN_OR_RETURN(data->inputs_, RandomInputs(chain, m, seed));
  int64_t constants = 0;
  for (int i = 0; i < chain.num_inputs(); ++i) {
    if (chain.input_op(i).constant) constants += static_cast<int64_t>(data->inputs_[i].size());
  }
  SINTER_ASSIGN_OR_RETURN(const int64_t out_bytes, OutputBytes(chain, 0, m));
  SINTER_ASSIGN_OR_RETURN(data->output_, data->arena_.Allocate(static_cast<uint64_t>(out_bytes)));
  SINTER_RETURN_IF_ERROR(data->Upload(chain, rotate ? RotationSets(constants) : 1));
  return data;
}

absl::Status ChainData::Upload(const Chain& chain, int64_t sets) {
  sets_.assign(static_cast<size_t>(sets), std::vector<DevicePtr>(inputs_.size() + 1));
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const int64_t copies = chain.input_op(static_cast<int>(i)).constant ? sets : 1;
    const uint64_t bytes = inputs_[i].size(), step = Aligned(bytes);
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer all,
                            arena_.Allocate(step * static_cast<uint64_t>(copies)));
    SINTER_RETURN_IF_ERROR(UploadCopies(measurer_, all.ptr, inputs_[i], step, copies));
    for (size_t s = 0; s < sets_.size(); ++s) {
      sets_[s][i] = all.ptr + (copies == 1 ? 0 : static_cast<uint64_t>(s)) * step;
    }
  }
  for (std::vector<DevicePtr>& set : sets_) set.back() = output_.ptr;
  return absl::OkStatus();
}

std::vector<DevicePtr> ChainData::CallerSet(const Chain& chain, size_t i) const {
  std::vector<DevicePtr> set = sets_[i];
  const std::vector<int32_t>& order = chain.InputOrder();
  for (size_t c = 0; c < order.size(); ++c) set[static_cast<size_t>(order[c])] = sets_[i][c];
  return set;
}

absl::Status ChainData::PoisonOutput() { return measurer_->Fill(output_, kPoison); }

absl::StatusOr<std::string> ChainData::DownloadOutput() {
  std::string bytes(output_.bytes, '\0');
  SINTER_RETURN_IF_ERROR(measurer_->Download(&bytes[0], output_, bytes.size()));
  return bytes;
}

}  // namespace sinter::bench
