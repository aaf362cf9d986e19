#include "src/engine/tune.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/status.h"
#include "src/engine/bound_plan.h"
#include "src/engine/kernel_swaps.h"
#include "src/engine/parallel.h"
#include "src/engine/rotation.h"
#include "src/engine/tune_ranking.h"
#include "src/engine/tune_report.h"
#include "src/engine/tuned_choice.h"

namespace sinter {
namespace {

constexpr int kCalls = 20;
constexpr int kFewReplays = 5, kLeastReplays = 7, kMostReplays = 400;
// How long a plan is run for its time. A GPU that idled runs above the clock that its power limit
// allows, for some milliseconds: what is fastest then need not be fastest under load.
constexpr double kLoadUs = 60e3;
// A cut whose best plan takes longer than this times the fastest is not worth its kernels' times.
constexpr double kNear = 1.15;

}  // namespace

int ChooseMeasured(const std::vector<double>& measured_us, double margin) {
  int best = -1;
  for (size_t i = 0; i < measured_us.size(); ++i) {
    if (measured_us[i] <= 0) continue;
    if (best < 0 || measured_us[i] < measured_us[static_cast<size_t>(best)]) {
      best = static_cast<int>(i);
    }
  }
  if (best <= 0 || measured_us[0] <= 0) return best;
  return measured_us[0] <= measured_us[static_cast<size_t>(best)] * (1 + margin) ? 0 : best;
}

// One plan of the ranking.
struct Tuner::Trial {
  explicit Trial(Plan p) : plan(std::move(p)) {}
  Plan plan;
  LoadedPlanPtr loaded;    // null unless it was built and is resident
  double measured_us = 0;  // 0: not measured
  Verdict verdict;
  std::string state;  // "ok", or why there is no time
};

// One call of Tune. trials[0] is the predicted choice.
struct Tuner::Session {
  const PlanRequest& request;
  const TuneOptions& options;
  const BuildControl control;
  std::shared_ptr<const Chain> chain;
  std::vector<Plan> ranking;  // all that was planned, the predicted choice first
  std::vector<Trial> trials;
  LoadedPlanPtr unfused;  // null when it could not be built
  std::unique_ptr<Verifier> verifier;
  std::unique_ptr<Rotation> rotation;
};

absl::Status Tuner::BuildOne(const Session& session, Trial& trial) {
  SINTER_ASSIGN_OR_RETURN(const std::string toolchain, core_->ports.compiler->ToolchainId());
  std::vector<std::string> keys;
  for (const PlannedKernel& kernel : trial.plan.kernels) {
    SINTER_ASSIGN_OR_RETURN(std::string key, KernelKeyBytes(kernel.spec, toolchain, *core_));
    keys.push_back(std::move(key));
  }
  SINTER_ASSIGN_OR_RETURN(std::vector<BuiltKernelPtr> kernels,
                          assembler_->BuildKernels(trial.plan, keys, false, session.control));
  std::string why;
  if (!assembler_->Resident(kernels, &why)) return absl::FailedPreconditionError(why);
  trial.loaded = assembler_->MakeLoaded(session.chain, trial.plan, std::move(kernels));
  return absl::OkStatus();
}

void Tuner::Build(Session& session, size_t begin) {
  ForEachIndex(static_cast<int>(session.trials.size() - begin), [&](int i) {
    Trial& trial = session.trials[begin + static_cast<size_t>(i)];
    const absl::Status status = BuildOne(session, trial);
    if (!status.ok()) trial.state = std::string(status.message());
  });
  for (const Trial& trial : session.trials) {
    if (session.unfused == nullptr && IsUnfused(trial.plan)) session.unfused = trial.loaded;
  }
}

absl::StatusOr<double> Tuner::Time(Session& session, const Trial& trial) {
  SINTER_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<const BoundPlan>> bound,
                          session.rotation->Bind(trial.loaded, *core_->ports.loader));
  const auto enqueue = [&](StreamHandle stream, int call) {
    return EnqueuePlan(*bound[static_cast<size_t>(call) % bound.size()], stream,
                       session.verifier->rows(), false);
  };
  Measurer& measurer = *core_->ports.measurer;
  const int calls = std::max(kCalls, static_cast<int>(bound.size()));
  SINTER_ASSIGN_OR_RETURN(const double warming_up, measurer.TimeGraph(enqueue, calls, kFewReplays));
  const double replays = kLoadUs / std::max(warming_up * calls, 1.0);
  return measurer.TimeGraph(
      enqueue, calls,
      std::clamp(static_cast<int>(std::min(replays, 1e6)), kLeastReplays, kMostReplays));
}

absl::Status Tuner::MeasureOne(Session& session, Trial& trial) {
  SINTER_ASSIGN_OR_RETURN(trial.verdict, session.verifier->Check(trial.loaded, session.unfused));
  assembler_->Record(*trial.loaded, trial.verdict);
  if (!trial.verdict.right) {
    return absl::DataLossError(absl::StrCat("wrong: ", trial.verdict.detail));
  }
  SINTER_ASSIGN_OR_RETURN(trial.measured_us, Time(session, trial));
  trial.state = "ok";
  return absl::OkStatus();
}

// The trials from `begin` on. The first of all must be measured in time.
absl::Status Tuner::MeasureFrom(Session& session, size_t begin) {
  bool any = begin > 0;
  for (size_t i = begin; i < session.trials.size(); ++i) {
    Trial& trial = session.trials[i];
    if (trial.loaded == nullptr) continue;
    const absl::Status in_time = session.control.Check("measuring");
    if (!in_time.ok() && !any) return in_time;
    const absl::Status status = in_time.ok() ? MeasureOne(session, trial) : in_time;
    if (!status.ok()) trial.state = std::string(status.message());
    any |= status.ok();
  }
  return absl::OkStatus();
}

// Index of the fastest trial of that cut; -1 when none has a time.
int Tuner::BestOfCut(const Session& session, const Plan& cut) {
  int best = -1;
  for (size_t i = 0; i < session.trials.size(); ++i) {
    const Trial& trial = session.trials[i];
    if (trial.measured_us <= 0 || !SameCut(trial.plan, cut)) continue;
    if (best < 0 || trial.measured_us < session.trials[static_cast<size_t>(best)].measured_us) {
      best = static_cast<int>(i);
    }
  }
  return best;
}

// Of each cut whose best plan is near the fastest: each kernel in turn takes the fastest of its
// ranking while the others stay. The i-th plan of a ranking has the i-th schedule of every kernel,
// so that the best of one kernel was measured beside whatever stood at its rank.
absl::Status Tuner::TryKernels(Session& session) {
  std::vector<Plan> cuts;
  double fastest = 0;
  for (const Trial& trial : session.trials) {
    if (trial.measured_us <= 0) continue;
    if (fastest <= 0 || trial.measured_us < fastest) fastest = trial.measured_us;
    const bool known = std::any_of(cuts.begin(), cuts.end(),
                                   [&](const Plan& cut) { return SameCut(cut, trial.plan); });
    if (!known) cuts.push_back(trial.plan);
  }
  for (const Plan& cut : cuts) {
    for (size_t kernel = 0; kernel < cut.kernels.size(); ++kernel) {
      const Trial& best = session.trials[static_cast<size_t>(BestOfCut(session, cut))];
      if (best.measured_us > kNear * fastest) break;
      SINTER_RETURN_IF_ERROR(TrySwaps(session, best.plan, kernel));
    }
  }
  return absl::OkStatus();
}

absl::Status Tuner::TrySwaps(Session& session, Plan plan, size_t kernel) {
  if (!session.control.Check("measuring").ok()) return absl::OkStatus();  // what there is decides
  const size_t begin = session.trials.size();
  const size_t limit = static_cast<size_t>(std::max(session.options.top_k, 1));
  for (Plan& swap : KernelSwaps(plan, kernel, session.ranking, limit)) {
    const bool tried = std::any_of(
        session.trials.begin(), session.trials.begin() + static_cast<ptrdiff_t>(begin),
        [&](const Trial& trial) { return trial.plan.PlanDigest() == swap.PlanDigest(); });
    if (!tried) session.trials.emplace_back(std::move(swap));
  }
  Build(session, begin);
  return MeasureFrom(session, begin);
}

// The predicted choice comes first, so that whatever a deadline leaves can be compared with it. It
// is timed again at the end: a device that was idle before may have run the first plan at a lower
// clock.
absl::Status Tuner::Measure(Session& session) {
  SINTER_RETURN_IF_ERROR(session.control.Check("measuring"));
  SINTER_ASSIGN_OR_RETURN(session.verifier,
                          Verifier::Make(core_.get(), session.chain, session.request.bucket,
                                         FixedRowsOf(*session.chain)));
  SINTER_ASSIGN_OR_RETURN(session.rotation, Rotation::Make(core_->ports.measurer.get(),
                                                           *session.chain, *session.verifier));
  SINTER_RETURN_IF_ERROR(MeasureFrom(session, 0));
  SINTER_RETURN_IF_ERROR(TryKernels(session));
  Trial& predicted = session.trials.front();
  if (predicted.measured_us > 0 && session.control.Check("measuring").ok()) {
    const absl::StatusOr<double> again = Time(session, predicted);
    if (again.ok()) predicted.measured_us = std::min(predicted.measured_us, *again);
  }
  return absl::OkStatus();
}

// The unfused plan, and every plan when there is none, was checked against the reference already.
bool Tuner::PassesReference(Session& session, Trial& trial) {
  if (session.unfused == nullptr || trial.loaded == session.unfused) return true;
  const absl::StatusOr<Verdict> verdict = session.verifier->Check(trial.loaded, nullptr);
  if (!verdict.ok()) {
    core_->log.Log(LogLevel::kWarn, absl::StrCat("tuned plan '", trial.plan.name,
                                                 "' is checked against the unfused plan only: ",
                                                 verdict.status().message()));
    return true;
  }
  trial.verdict.error = std::max(trial.verdict.error, verdict->error);
  if (verdict->right) return true;
  assembler_->Record(*trial.loaded, *verdict);
  trial.measured_us = 0;
  trial.state = absl::StrCat("wrong: ", verdict->detail);
  return false;
}

Tuner::Trial* Tuner::Decide(Session& session) {
  for (;;) {
    std::vector<double> times;
    for (const Trial& trial : session.trials) times.push_back(trial.measured_us);
    const int best = ChooseMeasured(times, session.options.switch_margin);
    if (best < 0) return nullptr;
    Trial& trial = session.trials[static_cast<size_t>(best)];
    if (PassesReference(session, trial)) return &trial;
  }
}

absl::StatusOr<std::shared_ptr<const TuningEntry>> Tuner::MakeEntry(const Session& session,
                                                                    const Trial& taken) {
  SINTER_ASSIGN_OR_RETURN(TuningEntry entry, MakeTuningEntry(session.request, *core_, taken.plan));
  entry.measured_us = taken.measured_us;
  entry.untuned_us = session.trials.front().measured_us;
  entry.seed = taken.verdict.seed;
  entry.error = taken.verdict.error;
  return std::make_shared<const TuningEntry>(std::move(entry));
}

std::string Tuner::Report(const Session& session, const Trial* taken) const {
  std::vector<TriedPlan> tried;
  for (const Trial& trial : session.trials) {
    tried.push_back({&trial.plan, trial.measured_us, trial.state});
  }
  return TuneReport(session.request.bucket, core_->ports.device_name, tried,
                    taken == nullptr ? -1 : static_cast<int>(taken - session.trials.data()));
}

absl::StatusOr<TuneResult> Tuner::Tune(const PlanRequest& request, const TuneOptions& options) {
  if (core_->ports.loader == nullptr || core_->ports.measurer == nullptr) {
    return absl::UnavailableError(core_->ports.no_gpu_reason);
  }
  Session session{request,
                  options,
                  BuildControl(options.deadline_us, nullptr, nullptr),
                  std::make_shared<const Chain>(*request.chain),
                  {},
                  {},
                  nullptr,
                  nullptr,
                  nullptr};
  SINTER_ASSIGN_OR_RETURN(FusionResult planned, PlanForTuning(request, options.top_k, *core_));
  const TuningEntry* known =
      options.keep == nullptr ? nullptr : options.keep->Find(TuningKeyOf(request, *core_));
  if (known != nullptr && PlanOfEntry(*known, request, planned, *core_).ok()) {
    return TuneResult{absl::StrFormat("kept: %s, measured %.2f us on %s\n", known->plan,
                                      known->measured_us, known->device),
                      std::make_shared<const TuningEntry>(*known)};
  }
  session.ranking = {std::move(planned.chosen)};
  std::move(planned.alternatives.begin(), planned.alternatives.end(),
            std::back_inserter(session.ranking));
  for (Plan& plan : PlansToTry(session.ranking, options.top_k)) {
    session.trials.emplace_back(std::move(plan));
  }
  Build(session, 0);
  SINTER_RETURN_IF_ERROR(Measure(session));
  const Trial* taken = Decide(session);
  TuneResult result;
  result.report = Report(session, taken);
  if (taken != nullptr) {
    SINTER_ASSIGN_OR_RETURN(result.entry, MakeEntry(session, *taken));
  }
  return result;
}

}  // namespace sinter
