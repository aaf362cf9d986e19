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
  std::string detail;  // when wrong: output, figures, bounds, seed
  absl::Status fault;  // of a run that cost the CUDA context; nothing runs behind it
};

// Inputs are made once, for as many plans as are checked. Needs a loader and a measurer, which
// outlives it. One thread.
class Verifier {
 public:
  // Rows are the bucket's top, fewer where an output would be very large. The seed follows from the
  // chain's digest.
  static absl::StatusOr<std::unique_ptr<Verifier>> Make(EngineCore* core,
                                                        std::shared_ptr<const Chain> chain,
                                                        int64_t bucket, int64_t fixed_rows,
                                                        Measurer* measurer);

  // Compares all of `candidate`'s output with that of `unfused`, and where the two differ (or
  // `unfused` is null or the candidate itself) some rows with the reference, which decides. Outputs
  // and workspace are poisoned before. A launch that fails or faults is a wrong plan; an error is
  // returned only if the check could not be made.
  absl::StatusOr<Verdict> Check(const LoadedPlanPtr& candidate, const LoadedPlanPtr& unfused);

  // For timing on the same data: device pointers in canonical order, inputs then outputs; the
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
