#include "src/engine/tune.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/status.h"
#include "src/engine/bound_plan.h"
#include "src/engine/parallel.h"
#include "src/engine/rank_correlation.h"
#include "src/engine/rotation.h"
#include "src/engine/tuned_choice.h"

namespace sinter {
namespace {

constexpr int kCalls = 20;
constexpr int kReplays = 15;

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
  std::vector<Trial> trials;
  LoadedPlanPtr unfused;  // null when it could not be built
  std::unique_ptr<Verifier> verifier;
  std::unique_ptr<Rotation> rotation;
};

absl::StatusOr<FusionResult> Tuner::RunFusion(const PlanRequest& request,
                                              const TuneOptions& options) {
  FusionOptions fusion;
  fusion.deterministic = request.deterministic;
  fusion.top_k = options.top_k;
  core_->counters.searched.fetch_add(1, std::memory_order_relaxed);
  return core_->hooks.plan(*request.chain, request.bucket, core_->ports.model, fusion);
}

// The best `top_k`, and the unfused plan wherever it ranks.
std::vector<Tuner::Trial> Tuner::Rank(FusionResult planned, int top_k) {
  std::vector<Trial> trials;
  trials.emplace_back(std::move(planned.chosen));
  bool has_unfused = IsUnfused(trials.front().plan);
  for (Plan& plan : planned.alternatives) {
    const bool room = static_cast<int>(trials.size()) < top_k;
    if (!room && (has_unfused || !IsUnfused(plan))) continue;
    has_unfused |= IsUnfused(plan);
    trials.emplace_back(std::move(plan));
  }
  return trials;
}

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

void Tuner::Build(Session& session) {
  ForEachIndex(static_cast<int>(session.trials.size()), [&](int i) {
    Trial& trial = session.trials[static_cast<size_t>(i)];
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
  return core_->ports.measurer->TimeGraph(enqueue, std::max(kCalls, static_cast<int>(bound.size())),
                                          kReplays);
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
  bool any = false;
  for (Trial& trial : session.trials) {
    if (trial.loaded == nullptr) continue;
    const absl::Status in_time = session.control.Check("measuring");
    if (!in_time.ok() && !any) return in_time;
    const absl::Status status = in_time.ok() ? MeasureOne(session, trial) : in_time;
    if (!status.ok()) trial.state = std::string(status.message());
    any |= status.ok();
  }
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
  std::string text = absl::StrFormat("tuning at m <= %d on %s\n%4s %12s %12s  %-8s %s\n",
                                     session.request.bucket, core_->ports.device_name, "rank",
                                     "predicted us", "measured us", "plan", "state");
  std::vector<double> predicted, measured;
  for (size_t i = 0; i < session.trials.size(); ++i) {
    const Trial& trial = session.trials[i];
    const bool timed = trial.measured_us > 0;
    text += absl::StrFormat("%4d %12.2f %12s  %-8s %s\n", i + 1, trial.plan.PredictedUs(),
                            timed ? absl::StrFormat("%.2f", trial.measured_us) : "-",
                            trial.plan.name, trial.state);
    for (const PlannedKernel& kernel : trial.plan.kernels) {
      absl::StrAppend(&text, "       ", ScheduleText(kernel.spec), "\n");
    }
    if (!timed) continue;
    predicted.push_back(trial.plan.PredictedUs());
    measured.push_back(trial.measured_us);
  }
  text += absl::StrFormat("rank correlation of predicted and measured: %.2f of %d plans\n",
                          RankCorrelation(predicted, measured), predicted.size());
  if (taken == nullptr) return absl::StrCat(text, "no plan could be measured\n");
  const ptrdiff_t rank = taken - session.trials.data();
  return absl::StrCat(
      text,
      rank == 0 ? "the predicted choice stands" : absl::StrCat("rank ", rank + 1, " is faster"),
      "\n");
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
                  nullptr,
                  nullptr,
                  nullptr};
  SINTER_ASSIGN_OR_RETURN(FusionResult planned, RunFusion(request, options));
  const TuningEntry* known =
      options.keep == nullptr ? nullptr : options.keep->Find(TuningKeyOf(request, *core_));
  if (known != nullptr && PlanOfEntry(*known, request, planned, *core_).ok()) {
    return TuneResult{absl::StrFormat("kept: %s, measured %.2f us on %s\n", known->plan,
                                      known->measured_us, known->device),
                      std::make_shared<const TuningEntry>(*known)};
  }
  session.trials = Rank(std::move(planned), options.top_k);
  Build(session);
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
