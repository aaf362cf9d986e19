// ChainData: one chain's tensors on the device, its constants as often as the cold protocol needs.
#pragma once

#include "src/base/ports.h"
#include "src/chain/chain.h"
#include "src/engine/verify.h"
#include "tests/support/common.h"

namespace sinter::bench {

// Cold means that what a launch reads was last read this many bytes of constants ago.
constexpr int64_t kRotationBytes = 240 * 1000 * 1000;

// Sets of constants that a chain with `constant_bytes` of them rotates over; at least 2.
int64_t RotationSets(int64_t constant_bytes);

// `copies` times `bytes` at steps of `step` bytes from `to`; small ones in few transfers.
absl::Status UploadCopies(Measurer* measurer, DevicePtr to, const std::string& bytes, uint64_t step,
                          int64_t copies);

// One thread. All sets hold the same values, so every launch has the same result. One output.
class ChainData {
 public:
  // `rotate` false: one set. The measurer outlives the data.
  static absl::StatusOr<std::unique_ptr<ChainData>> Make(Measurer* measurer, const Chain& chain,
                                                         int64_t m, uint64_t seed, bool rotate);

  const std::vector<std::string>& inputs() const { return inputs_; }  // canonical
  // Device pointers of set i, canonical: inputs, then the output.
  const std::vector<std::vector<DevicePtr>>& sets() const { return sets_; }
  // The same in the order of a plan's caller.
  std::vector<DevicePtr> CallerSet(const Chain& chain, size_t i) const;

  absl::Status PoisonOutput();
  absl::StatusOr<std::string> DownloadOutput();

 private:
  explicit ChainData(Measurer* measurer) : measurer_(measurer), arena_(measurer) {}
  absl::Status Upload(const Chain& chain, int64_t sets);

  Measurer* const measurer_;
  DeviceArena arena_;
  std::vector<std::string> inputs_;
  std::vector<std::vector<DevicePtr>> sets_;
  DeviceBuffer output_;
};

}  // namespace sinter::bench
