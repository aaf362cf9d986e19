// Verifier: runs a plan on random inputs and says whether its numbers are right.
#ifndef SINTER_SRC_ENGINE_VERIFY_H_
#define SINTER_SRC_ENGINE_VERIFY_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/ports.h"
#include "src/base/status.h"
#include "src/chain/chain.h"
#include "src/engine/core.h"
#include "src/engine/loaded_plan.h"

namespace sinter {

// DeviceArena: device buffers that are freed together.

// One thread. The measurer outlives the arena.
class DeviceArena {
 public:
  explicit DeviceArena(Measurer* measurer) : measurer_(measurer) {}
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;
  ~DeviceArena() {
    for (const DeviceBuffer& buffer : buffers_) measurer_->Free(buffer);
  }

  // At least 16 bytes, so that an empty tensor has an address too.
  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) {
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer,
                            measurer_->Allocate(std::max<uint64_t>(bytes, 16)));
    buffers_.push_back(buffer);
    return buffer;
  }

 private:
  Measurer* const measurer_;
  std::vector<DeviceBuffer> buffers_;
};

struct Verdict {
  bool right = false;
  uint64_t seed = 0;   // of the inputs
  double error = 0;    // relative, of the worst output
  std::string detail;  // if wrong: output, figures, bounds, seed
  absl::Status fault;  // of a run that broke the CUDA context; nothing can run after it
};

// Makes inputs once, for all plans that are checked. Needs a loader and a measurer, which outlive
// it. One thread.
class Verifier {
 public:
  // Checks at the bucket's largest m, or fewer rows where an output would be very large. The seed
  // follows from the chain's digest.
  static absl::StatusOr<std::unique_ptr<Verifier>> Make(EngineCore* core,
                                                        std::shared_ptr<const Chain> chain,
                                                        int64_t bucket, int64_t fixed_rows,
                                                        Measurer* measurer);

  // Compares all outputs of `candidate` with those of `unfused`. Where the two differ (or `unfused`
  // is null or the candidate itself), some rows are compared with the reference, which decides.
  // Outputs and workspace are poisoned before the run. A launch that fails or faults means a wrong
  // plan; an error is returned only if the check could not be made.
  absl::StatusOr<Verdict> Check(const LoadedPlanPtr& candidate, const LoadedPlanPtr& unfused);

  // For timing on the same data: device pointers in canonical order, inputs then outputs; and the
  // inputs' bytes.
  const std::vector<DevicePtr>& pointers() const { return pointers_; }
  const std::vector<std::string>& inputs() const { return inputs_; }
  int64_t rows() const { return rows_; }

 private:
  using Outputs = std::vector<std::vector<double>>;  // one per output, contiguous

  Verifier(EngineCore* core, std::shared_ptr<const Chain> chain, int64_t rows, Measurer* measurer);
  absl::Status Upload();
  absl::StatusOr<Outputs> Run(const LoadedPlanPtr& plan);
  absl::StatusOr<Outputs> Download();
  Verdict Judge(const Outputs& got, const Outputs& want, absl::string_view against) const;
  absl::StatusOr<Verdict> JudgeByReference(const Outputs& got) const;

  EngineCore* const core_;
  Measurer* const measurer_;
  const std::shared_ptr<const Chain> chain_;
  const int64_t rows_;
  const uint64_t seed_;
  DeviceArena arena_;
  std::vector<std::string> inputs_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<DevicePtr> pointers_;
  LoadedPlanPtr unfused_;  // the plan that unfused_outputs_ are of
  Outputs unfused_outputs_;
};

// TrialData: random inputs for a chain from a seed; reads its outputs back as numbers.

// Canonical inputs as byte buffers. The same (chain, m, seed) gives the same bytes everywhere.
// Floating values are uniform in [-s, s]: s is 1, or for constants of two dimensions or more such
// that a product keeps the scale of its input. Integers are 0..15, pred is 0 or 1. In a chain
// without products f32 inputs are uniform in [0.25, 1): there they are statistics, second moments
// and rates, of which roots are taken. Values repeat with a prime period, so that no two tiles of a
// tensor are alike.
absl::StatusOr<std::vector<std::string>> RandomInputs(const Chain& chain, int64_t m, uint64_t seed);

// Bytes of canonical input or output `i` at m rows.
absl::StatusOr<int64_t> InputBytes(const Chain& chain, int i, int64_t m);
absl::StatusOr<int64_t> OutputBytes(const Chain& chain, int i, int64_t m);

// Output `i`, read from its buffer's bytes: contiguous, row-major.
absl::StatusOr<std::vector<double>> OutputValues(const Chain& chain, int i, int64_t m,
                                                 const std::string& bytes);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_VERIFY_H_
