// Tuner: builds, checks and measures the top of a chain's ranking.
#ifndef SINTER_SRC_ENGINE_TUNE_H_
#define SINTER_SRC_ENGINE_TUNE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/engine/assembler.h"
#include "src/engine/core.h"
#include "src/engine/keys.h"

namespace sinter {

class Rotation;

// Thread-safe; two tunings at once would disturb each other's times, not their results.
class Tuner {
 public:
  // `assembler` outlives the tuner.
  Tuner(std::shared_ptr<EngineCore> core, PlanAssembler* assembler)
      : core_(std::move(core)), assembler_(assembler) {}

  // Plans of the ranking are compiled at once, then checked and timed one after the other:
  // microseconds per run inside a graph, constants rotating. Kernels that are right are marked so
  // in the store, wrong ones quarantined. Changes no plan. The report is a table for people.
  // UNAVAILABLE without a GPU, DEADLINE_EXCEEDED, errors of planning.
  absl::StatusOr<std::string> Tune(const PlanRequest& request, const TuneOptions& options);

 private:
  struct Trial;
  absl::StatusOr<std::vector<Trial>> Rank(const PlanRequest& request, const TuneOptions& options);
  void Build(std::shared_ptr<const Chain> chain, std::vector<Trial>& trials,
             const BuildControl& control);
  absl::Status BuildOne(std::shared_ptr<const Chain> chain, Trial& trial,
                        const BuildControl& control);
  absl::Status MeasureOne(const LoadedPlanPtr& unfused, Verifier& verifier, Rotation& rotation,
                          Trial& trial);
  std::string Report(const PlanRequest& request, const TuneOptions& options,
                     const std::vector<Trial>& trials) const;

  const std::shared_ptr<EngineCore> core_;
  PlanAssembler* const assembler_;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNE_H_
