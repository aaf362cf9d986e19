// DeviceChain: the tensors of one chain of products, or of grouped ones, on the device, poisoned
// before every run, checked after it.
#pragma once

#include "src/engine/engine.h"
#include "src/engine/loaded_plan.h"
#include "src/engine/verify.h"
#include "src/product/matcher.h"
#include "src/reference/compare.h"
#include "tests/support/common.h"

namespace sinter::gpu_testing {

// A plan bound to a chain's buffers and to a workspace.
struct BoundRun {
  std::function<absl::Status(StreamHandle, int64_t m, bool pdl)> launch;
  DeviceBuffer workspace;  // {0, 0} when the plan needs none
};

// One thread. The measurer and the loader outlive it.
class DeviceChain {
 public:
  // Inputs for M up to `rows` from `seed`. The output has room for as many rows, followed by a
  // guard.
  static absl::StatusOr<std::unique_ptr<DeviceChain>> Make(const Ports& ports, const Chain& chain,
                                                           int64_t rows, uint64_t seed);
  // Of these inputs (canonical), any chain of one output. Its values are held to `bounds`, by a
  // reference that leaves out the last cast.
  static absl::StatusOr<std::unique_ptr<DeviceChain>> Make(const Ports& ports, const Chain& chain,
                                                           int64_t rows,
                                                           std::vector<std::string> inputs,
                                                           const Bounds& bounds);

  const Chain& chain() const { return chain_; }
  // Empty of grouped, batched and four-bit products.
  const MatchedSequence& matched() const { return matched_; }
  int64_t rows() const { return rows_; }
  const std::vector<std::string>& inputs() const { return inputs_; }  // canonical
  DeviceBuffer input_buffer(int canonical) const { return buffers_[canonical]; }
  DeviceBuffer output_buffer() const { return buffers_.back(); }

  // With a workspace of its own, all poison but the header, which is initialised here.
  absl::StatusOr<BoundRun> Bind(std::shared_ptr<const PreparedPlan> plan);
  absl::StatusOr<BoundRun> Bind(LoadedPlanPtr plan);
  // The output takes the place of an input (canonical) of its extents and strides.
  absl::StatusOr<BoundRun> BindOver(LoadedPlanPtr plan, int input);
  // On a workspace that the caller has initialised.
  absl::StatusOr<BoundRun> BindOn(std::shared_ptr<const PreparedPlan> plan, DeviceBuffer workspace);
  absl::StatusOr<DeviceBuffer> MakeWorkspace(uint64_t bytes);  // all poison

  // Poisons the output and the workspace past its header.
  absl::Status Poison(const BoundRun& run);
  // Poison, one launch, wait; the whole output buffer with its guard.
  absl::StatusOr<std::string> Run(const BoundRun& run, int64_t m, bool pdl = false);
  absl::StatusOr<std::string> DownloadOutput();
  // Other bytes for an input (canonical), of which the reference does not know.
  absl::Status Replace(int input, const std::string& bytes);
  // For a plan that BindOver bound: restores the input, launches once, waits; returns the whole
  // buffer of the input.
  absl::StatusOr<std::string> RunOver(const BoundRun& run, int input, int64_t m);

  // The float64 reference of all rows, once computed.
  absl::StatusOr<const std::vector<double>*> Reference();

  // OK when the first m rows are within the bounds, by default those of the dtype, and nothing else
  // of `output` was written.
  absl::Status Check(const std::string& output, int64_t m);
  absl::Status Check(const std::string& output, int64_t m, const Bounds& bounds);
  // The largest errors that Check has seen, each by itself.
  const Bounds& worst() const { return worst_; }
  // OK when nothing of `output` was written.
  absl::Status CheckUntouched(const std::string& output) { return CheckGuard(output, 0); }

 private:
  DeviceChain(const Ports& ports, const Chain& chain, int64_t rows);
  absl::Status Upload();  // inputs_
  absl::StatusOr<BoundRun> BindTo(LoadedPlanPtr plan, DevicePtr output);
  absl::Status CheckGuard(const std::string& output, int64_t m) const;

  const Ports& ports_;
  Measurer* const measurer_;
  const Chain chain_;
  const int64_t rows_;
  MatchedSequence matched_;
  DeviceArena arena_;
  std::vector<std::string> inputs_;
  std::vector<DeviceBuffer> buffers_;  // canonical inputs, then the output
  std::vector<double> reference_;
  bool skips_final_cast_ = false;  // the reference
  Bounds bounds_, worst_;
};

}  // namespace sinter::gpu_testing
