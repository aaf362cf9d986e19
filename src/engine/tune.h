// Tuner: builds, checks and measures the top of a chain's ranking, and says which plan it would
// take.
#ifndef SINTER_SRC_ENGINE_TUNE_H_
#define SINTER_SRC_ENGINE_TUNE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/engine/assembler.h"
#include "src/engine/core.h"
#include "src/engine/keys.h"

namespace sinter {

// Index of the plan to take: the fastest, unless `measured_us[0]`, the predicted choice, is within
// `margin` of it. 0 stands for no time. -1 when nothing has a time.
int ChooseMeasured(const std::vector<double>& measured_us, double margin);

// Thread-safe; two tunings at once would disturb each other's times, not their results.
class Tuner {
 public:
  // `assembler` outlives the tuner.
  Tuner(std::shared_ptr<EngineCore> core, PlanAssembler* assembler)
      : core_(std::move(core)), assembler_(assembler) {}

  // `control` ends it; it and `measurer`, where everything is run, outlive the call. Tells events.
  // Plans of the ranking are compiled at once, then timed one after the other: microseconds per run
  // inside a graph, constants rotating. Then each kernel of the fastest ones in turn tries the
  // other schedules of its ranking. The fastest of all and the predicted choice are timed again in
  // turns, under load, which decides. Whatever is built on is checked against the unfused plan
  // before, and the plan to take against the reference too; one that is wrong gives way to the
  // next. Kernels that are right are marked so in the store, wrong ones quarantined. Changes no
  // plan.
  //
  // The entry is null when no plan could be measured; the report says why. UNAVAILABLE without a
  // GPU, DEADLINE_EXCEEDED when nothing was measured in time, errors of planning.
  absl::StatusOr<TuneResult> Tune(const PlanRequest& request, const TuneOptions& options,
                                  const BuildControl& control, Measurer* measurer);

 private:
  struct Trial;
  struct Session;
  absl::StatusOr<TuneResult> Run(Session& session);
  void Build(Session& session, size_t begin);
  absl::Status BuildOne(const Session& session, Trial& trial);
  absl::Status Measure(Session& session);
  absl::Status MeasureFrom(Session& session, size_t begin);
  absl::Status TryKernels(Session& session);
  absl::Status TrySwaps(Session& session, Plan plan, size_t kernel);
  const Trial* Fastest(Session& session, const std::function<bool(const Trial&)>& among);
  absl::Status MeasureOne(Session& session, Trial& trial);
  bool IsRight(Session& session, Trial& trial);
  std::vector<Trial*> ShortList(Session& session);
  absl::Status TimeShortList(Session& session);
  static bool WinsClearly(const Session& session, const Trial& trial);
  static double DecisiveUs(const Session& session, const Trial& trial);
  absl::StatusOr<double> Time(Session& session, Trial& trial, int replays);
  Trial* Decide(Session& session);
  bool PassesReference(Session& session, Trial& trial);
  absl::StatusOr<std::shared_ptr<const TuningEntry>> MakeEntry(const Session& session,
                                                               const Trial& taken);
  std::string Report(const Session& session, const Trial* taken) const;

  const std::shared_ptr<EngineCore> core_;
  PlanAssembler* const assembler_;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNE_H_
