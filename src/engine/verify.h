// Verifier: runs a plan on random inputs and says whether its numbers are right.
#ifndef SINTER_SRC_ENGINE_VERIFY_H_
#define SINTER_SRC_ENGINE_VERIFY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/engine/core.h"
#include "src/engine/device_arena.h"
#include "src/engine/loaded_plan.h"

namespace sinter {

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

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_VERIFY_H_
