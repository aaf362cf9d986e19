// GraphData: a graph's inputs and outputs on the device, as often as the cold protocol needs.
#pragma once

#include "src/base/ports.h"
#include "src/chain/chain.h"
#include "src/engine/verify.h"
#include "tests/support/common.h"

namespace sinter::bench {

// Cold means that what a launch reads was last read this many bytes ago.
constexpr int64_t kRotationBytes = 240 * 1000 * 1000;

// Sets that tensors of `bytes` rotate over; at least 2.
int64_t RotationSets(int64_t bytes);

// `copies` times `bytes` at steps of `step` bytes from `to`; small ones in few transfers.
absl::Status UploadCopies(Measurer* measurer, DevicePtr to, const std::string& bytes, uint64_t step,
                          int64_t copies);

// One thread. All sets hold the same inputs, so every launch has the same results. Every set has
// tensors of its own, so that each launch reads and writes what was last touched a whole rotation
// ago.
class GraphData {
 public:
  // `sets` at least 1. The measurer outlives the data.
  static absl::StatusOr<std::unique_ptr<GraphData>> Make(Measurer* measurer, const Chain& chain,
                                                         int64_t m, uint64_t seed, int64_t sets);
  static absl::StatusOr<std::unique_ptr<GraphData>> Make(Measurer* measurer, const Chain& chain,
                                                         int64_t m, std::vector<std::string> inputs,
                                                         int64_t sets);
  // Only constants rotate: cold weights, as in a model. `rotate` false: one set.
  static absl::StatusOr<std::unique_ptr<GraphData>> MakeOfWeights(Measurer* measurer,
                                                                  const Chain& chain, int64_t m,
                                                                  uint64_t seed, bool rotate);

  const std::vector<std::string>& inputs() const { return inputs_; }  // canonical
  size_t sets() const { return sets_; }
  // Device pointers of set i in the order of a plan's caller: inputs, then outputs. `in_place`:
  // outputs that may share an input's buffer do.
  std::vector<DevicePtr> CallerSet(size_t i, bool in_place = false) const;
  // The same in canonical order, not in place.
  std::vector<DevicePtr> CanonicalSet(size_t i) const;

  // Set 0: fills the outputs with bytes 0xff; `inputs_too`: uploads the inputs again, which a run
  // in place has changed.
  absl::Status Reset(bool inputs_too);
  // Set 0: the outputs' bytes in declared order.
  absl::StatusOr<std::vector<std::string>> Download(bool in_place);
  absl::StatusOr<std::string> DownloadOutput();  // of one output

 private:
  GraphData(Measurer* measurer, const Chain& chain)
      : measurer_(measurer), chain_(chain), arena_(measurer) {}
  absl::Status Allocate(int64_t m, int64_t sets, bool only_constants = false);
  // The buffer of set 0 that output i is written to.
  DeviceBuffer OutputBuffer(int i, bool in_place) const;

  struct Rotating {
    DevicePtr first = 0;
    uint64_t step = 0, bytes = 0;  // step 0: all sets share it
    DevicePtr At(size_t set) const { return first + static_cast<uint64_t>(set) * step; }
  };

  Measurer* const measurer_;
  const Chain& chain_;
  DeviceArena arena_;
  size_t sets_ = 0;
  std::vector<std::string> inputs_;
  std::vector<Rotating> in_, out_;  // canonical inputs; outputs as declared
};

}  // namespace sinter::bench
