// Tuner: builds, checks and measures the best plans of a chain's ranking, and says which one it
// would take.
#ifndef SINTER_SRC_ENGINE_TUNE_H_
#define SINTER_SRC_ENGINE_TUNE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/recent.h"
#include "src/engine/assembler.h"
#include "src/engine/bound_plan.h"
#include "src/engine/control.h"
#include "src/engine/core.h"
#include "src/engine/keys.h"
#include "src/engine/verify.h"
#include "src/fusion/fusion.h"
#include "src/plan/plan.h"

namespace sinter {

// Rotation: copies of a chain's constants, so that repeated runs read them from memory, as the
// layers of a model do. A chain without products mostly moves its inputs and outputs, so all its
// buffers are copied.

// How many sets of `set_bytes` exceed 240 MB, four times the largest second-level cache here.
// Bounded: a chain of less than 15 KB is mostly launch time anyway.
int RotationSets(uint64_t set_bytes);

// One thread. The first set of the rotation is the verifier's data; the verifier outlives the
// rotation.
class Rotation {
 public:
  static absl::StatusOr<std::unique_ptr<Rotation>> Make(Measurer* measurer, const Chain& chain,
                                                        const Verifier& data);

  // Binds the plan to every set, with one cleared workspace for all, which lives as long as the
  // rotation.
  absl::StatusOr<std::vector<std::shared_ptr<const BoundPlan>>> Bind(const LoadedPlanPtr& plan,
                                                                     Loader& loader);

 private:
  // Where one set's rotating buffers lie, each aligned. An output needs no contents; each has its
  // own buffer, even where it might share an input's.
  struct Layout {
    std::string inputs;
    uint64_t output_bytes = 0;
    size_t num_inputs = 0;         // buffers of the chain
    std::vector<int64_t> offsets;  // among the inputs or outputs; -1: does not rotate
  };

  explicit Rotation(Measurer* measurer) : measurer_(measurer), arena_(measurer) {}
  absl::Status AddSets(int count, const Layout& layout);
  absl::Status UploadInputs(DevicePtr to, uint64_t total, const std::string& inputs);

  Measurer* const measurer_;
  DeviceArena arena_;
  std::vector<std::vector<DevicePtr>> sets_;  // canonical order, inputs then outputs
};

// For each of `count` things, the median of its times in `rounds` rounds. A round times each thing
// once, one right after the other. The order matters: a GPU that was idle first runs above the
// clock that its power limit allows. Under load its clock wanders for seconds. Things timed one by
// one would differ by when they were timed. Returns the errors of `time`. Once `go_on` is false,
// the rounds done so far count; empty if there is none.
absl::StatusOr<std::vector<double>> TimeInTurns(
    int count, int rounds, const std::function<absl::StatusOr<double>(int)>& time,
    const std::function<bool()>& go_on = [] { return true; });

// The numbers of rows at which plans that take `rows` at most are timed in turns: `rows`, then the
// least that their bucket serves, and the middle. Only `rows` for a chain without M.
std::vector<int64_t> RowsToTime(const Chain& chain, int64_t rows);

// KnownTimes: the times of this process, each under the digest of the work that was timed
// (Tuner::TimedAs). Plans of different chains, and of contexts without a cache, can be the same
// kernels on operands of the same sizes. Such plans are timed once. The values are a plan's first
// time, or those of Tuner::TurnsOf for a short list.
class KnownTimes : public Recent<std::vector<double>, 4096> {};

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
  // again, in turns and under load, at the bucket's rows and at two numbers inside the bucket; the
  // mean decides. A plan is checked against the unfused plan
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
  absl::Status BuildOne(const Session& session, const BuildControl& control, Trial& trial);
  absl::Status Measure(Session& session);
  absl::Status MeasureFrom(Session& session, size_t begin);
  absl::Status TryKernels(Session& session);
  absl::Status TrySwaps(Session& session, Plan plan, size_t kernel);
  const Trial* Fastest(Session& session, const std::function<bool(const Trial&)>& among);
  absl::Status MeasureOne(Session& session, Trial& trial);
  bool IsRight(Session& session, Trial& trial);
  // Digest of device, kernels, launches, operand sizes, numbers of rows and protocol: equal digests
  // mean equal work.
  std::string TimedAs(const Session& session, const std::vector<Trial*>& trials,
                      const std::vector<int64_t>& rows) const;
  std::vector<Trial*> ShortList(Session& session);
  absl::Status TimeShortList(Session& session);
  static std::vector<double> TurnsOf(const std::vector<Trial*>& list);
  static bool TakeKnownTurns(const std::vector<double>& turns, const std::vector<Trial*>& list);
  static bool WinsClearly(const Session& session, const Trial& trial);
  static double FullUs(const Trial& trial);
  static double DecisiveUs(const Session& session, const Trial& trial);
  absl::StatusOr<double> Time(Session& session, Trial& trial, int64_t rows, int replays);
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
  double in_turns_us = 0;      // mean over session.rows; 0: not on the short list
  std::vector<double> rounds;  // the times whose median is in_turns_us
  std::vector<double> full;    // in each round, at the bucket's rows
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
  uint64_t considered = 0, legal = 0;  // of planning
  std::vector<int64_t> rows = {};      // RowsToTime, once the verifier is there
  std::vector<Plan> ranking = {};      // everything that was planned, the predicted choice first
  std::vector<Trial> trials = {};
  LoadedPlanPtr unfused = nullptr;  // null when it could not be built
  std::unique_ptr<Verifier> verifier = nullptr;
  std::unique_ptr<Rotation> rotation = nullptr;
  std::shared_ptr<KernelSources> sources = nullptr;
};

// Which plans a tuning tries first: more than planning offers, since measuring is surer than
// predicting.

// What planning offers, with rankings of `top_k`, then what planning by prediction leaves out:
// spatial gates and more kinds of stitched kernels. Counted as a search.
absl::StatusOr<FusionResult> PlanForTuning(const PlanRequest& request, int top_k,
                                           const BuildControl& control, EngineCore& core);

// Picks from a ranking whose first plan is the predicted choice, in its order: the best `top_k`,
// the best few of each cut and dataflow that may be worth it, since models err per dataflow, and
// the unfused plan whatever its rank.
std::vector<Plan> PlansToTry(const std::vector<Plan>& ranking, int top_k);

// KernelSwaps: plans that differ from one another in the schedule of one kernel.

// Whether both plans compute the same ops kernel by kernel, so that a kernel of one can replace the
// other's.
bool SameCut(const Plan& a, const Plan& b);

// SameCut, and the same dataflow kernel by kernel.
bool SameDataflows(const Plan& a, const Plan& b);

// Decisions of `plan` with another schedule for kernel `kernel`: the schedule of each plan of
// `ranking` with the same cut. Takes the first `limit` such plans in order, and each schedule that
// differs from `plan`'s once. Precondition: kernel < plan.kernels.size().
std::vector<Decisions> KernelSwaps(const Plan& plan, size_t kernel,
                                   const std::vector<Plan>& ranking, size_t limit);

// In [-1, 1]; ties share their mean rank. 0 with fewer than two values or when all values of a side
// are equal. `a` and `b` have one size.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNE_H_
