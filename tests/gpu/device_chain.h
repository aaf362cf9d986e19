// DeviceChain: the tensors of one chain of products, or of grouped ones, on the device, poisoned
// before every run, checked after it.
#pragma once

#include "src/product/matcher.h"
#include "src/reference/compare.h"
#include "tests/gpu/device_tensors.h"

namespace sinter::gpu_testing {

// One thread. The ports outlive it.
class DeviceChain : public DeviceTensors {
 public:
  // Inputs for M up to `rows` from `seed`.
  static absl::StatusOr<std::unique_ptr<DeviceChain>> Make(const Ports& ports, const Chain& chain,
                                                           int64_t rows, uint64_t seed);
  // Of these inputs (canonical), any chain of one output. Its values are held to `bounds`, by a
  // reference that leaves out the last cast.
  static absl::StatusOr<std::unique_ptr<DeviceChain>> Make(const Ports& ports, const Chain& chain,
                                                           int64_t rows,
                                                           std::vector<std::string> inputs,
                                                           const Bounds& bounds);

  // Empty of grouped, batched and four-bit products.
  const MatchedSequence& matched() const { return matched_; }

  // The float64 reference of all rows, once computed. It does not know of replaced inputs.
  absl::StatusOr<const std::vector<double>*> Reference();

  // OK when the first m rows are within the bounds, by default those of the dtype, and nothing else
  // of `output` was written.
  absl::Status Check(const std::string& output, int64_t m);
  absl::Status Check(const std::string& output, int64_t m, const Bounds& bounds);
  // The largest errors that Check has seen, each by itself.
  const Bounds& worst() const { return worst_; }
  // OK when nothing of `output` was written.
  absl::Status CheckUntouched(const std::string& output) { return CheckRows(output, 0); }

 private:
  DeviceChain(const Ports& ports, const Chain& chain, int64_t rows);
  // Nothing but `m` rows was written.
  absl::Status CheckRows(const std::string& output, int64_t m) const;

  MatchedSequence matched_;
  std::vector<double> reference_;
  bool skips_final_cast_ = false;  // the reference
  Bounds bounds_, worst_;
};

}  // namespace sinter::gpu_testing
