// Tuner: builds, checks and measures the best plans of a chain's ranking, and says which one it
// would take.
#ifndef SINTER_SRC_ENGINE_TUNE_H_
#define SINTER_SRC_ENGINE_TUNE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/engine/assembler.h"
#include "src/engine/control.h"
#include "src/engine/core.h"
#include "src/engine/keys.h"
#include "src/engine/rotation.h"
#include "src/engine/verify.h"

namespace sinter {

// Index of the plan to take: the fastest, or 0, the predicted choice, if its time is within
// `margin` of the fastest. A time of 0 means: not measured. -1 when none was.
int ChooseMeasured(const std::vector<double>& measured_us, double margin);

// Thread-safe. Two tunings at once disturb each other's times, not their results.
class Tuner {
 public:
  // `assembler` outlives the tuner.
  Tuner(std::shared_ptr<EngineCore> core, PlanAssembler* assembler)
      : core_(std::move(core)), assembler_(assembler) {}

  // `control` can end it. Everything runs on `measurer`; both outlive the call. Sends events. The
  // plans of the ranking are compiled at once, then timed one after the other: microseconds per run
  // inside a graph, with rotating constants. Then each kernel of the fastest plans in turn tries
  // the other schedules of its ranking. Last, the fastest of all and the predicted choice are timed
  // again, in turns and under load, which decides. A plan is checked against the unfused plan
  // before anything depends on it, and the plan to take against the reference too; a wrong one
  // gives way to the next. In the store, right kernels are marked and wrong ones quarantined.
  // Changes no plan.
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

// One plan of the ranking.
struct Tuner::Trial {
  explicit Trial(Plan p) : plan(std::move(p)) {}
  Plan plan;
  LoadedPlanPtr loaded;                                 // null unless it was built and is resident
  std::vector<std::shared_ptr<const BoundPlan>> bound;  // set where only times in turns decide
  double measured_us = 0;                               // 0: not measured
  double in_turns_us = 0;                               // 0: not on the short list
  std::vector<double> rounds;                           // the times whose median is in_turns_us
  bool checked = false;
  Verdict verdict;
  std::string state;  // "ok", "not checked", or why there is no time
};

// One call of Tune. trials[0] is the predicted choice.
struct Tuner::Session {
  const PlanRequest& request;
  const TuneOptions& options;
  const BuildControl& control;
  Measurer* const measurer;
  std::vector<Plan> ranking;  // everything that was planned, the predicted choice first
  std::vector<Trial> trials;
  LoadedPlanPtr unfused;  // null when it could not be built
  std::unique_ptr<Verifier> verifier;
  std::unique_ptr<Rotation> rotation;
  std::shared_ptr<KernelSources> sources;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNE_H_
