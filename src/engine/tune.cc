#include "src/engine/tune.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/status.h"
#include "src/engine/bound_plan.h"
#include "src/engine/parallel.h"
#include "src/engine/rank_correlation.h"
#include "src/engine/rotation.h"

namespace sinter {
namespace {

constexpr int kCalls = 20;
constexpr int kReplays = 15;

}  // namespace

struct Tuner::Trial {
  Plan plan;
  LoadedPlanPtr loaded;    // null unless it was built and is resident
  double measured_us = 0;  // 0: not measured
  std::string state;       // "ok", or why there is no time
};

absl::StatusOr<std::vector<Tuner::Trial>> Tuner::Rank(const PlanRequest& request,
                                                      const TuneOptions& options) {
  FusionOptions fusion;
  fusion.deterministic = request.deterministic;
  fusion.top_k = options.top_k;
  SINTER_ASSIGN_OR_RETURN(FusionResult result, core_->hooks.plan(*request.chain, request.bucket,
                                                                 core_->ports.model, fusion));
  core_->counters.searched.fetch_add(1, std::memory_order_relaxed);
  std::vector<Trial> trials;
  trials.push_back({std::move(result.chosen), nullptr, 0, ""});
  bool has_unfused = IsUnfused(trials.front().plan);
  for (Plan& plan : result.alternatives) {
    const bool room = static_cast<int>(trials.size()) < options.top_k;
    if (!room && (has_unfused || !IsUnfused(plan))) continue;
    has_unfused |= IsUnfused(plan);
    trials.push_back({std::move(plan), nullptr, 0, ""});
  }
  return trials;
}

absl::Status Tuner::BuildOne(std::shared_ptr<const Chain> chain, Trial& trial,
                             const BuildControl& control) {
  SINTER_ASSIGN_OR_RETURN(const std::string toolchain, core_->ports.compiler->ToolchainId());
  std::vector<std::string> keys;
  for (const PlannedKernel& kernel : trial.plan.kernels) {
    SINTER_ASSIGN_OR_RETURN(std::string key, KernelKeyBytes(kernel.spec, toolchain, *core_));
    keys.push_back(std::move(key));
  }
  SINTER_ASSIGN_OR_RETURN(std::vector<BuiltKernelPtr> kernels,
                          assembler_->BuildKernels(trial.plan, keys, false, control));
  std::string why;
  if (!assembler_->Resident(kernels, &why)) return absl::FailedPreconditionError(why);
  trial.loaded = assembler_->MakeLoaded(std::move(chain), trial.plan, std::move(kernels));
  return absl::OkStatus();
}

void Tuner::Build(std::shared_ptr<const Chain> chain, std::vector<Trial>& trials,
                  const BuildControl& control) {
  ForEachIndex(static_cast<int>(trials.size()), [&](int i) {
    Trial& trial = trials[static_cast<size_t>(i)];
    const absl::Status status = BuildOne(chain, trial, control);
    if (!status.ok()) trial.state = std::string(status.message());
  });
}

absl::Status Tuner::MeasureOne(const LoadedPlanPtr& unfused, Verifier& verifier, Rotation& rotation,
                               Trial& trial) {
  SINTER_ASSIGN_OR_RETURN(const Verdict verdict, verifier.Check(trial.loaded, unfused));
  assembler_->Record(*trial.loaded, verdict);
  if (!verdict.right) return absl::DataLossError(absl::StrCat("wrong: ", verdict.detail));
  SINTER_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<const BoundPlan>> bound,
                          rotation.Bind(trial.loaded, *core_->ports.loader));
  const auto enqueue = [&](StreamHandle stream, int call) {
    return EnqueuePlan(*bound[static_cast<size_t>(call) % bound.size()], stream, verifier.rows(),
                       false);
  };
  SINTER_ASSIGN_OR_RETURN(trial.measured_us,
                          core_->ports.measurer->TimeGraph(
                              enqueue, std::max(kCalls, static_cast<int>(bound.size())), kReplays));
  trial.state = "ok";
  return absl::OkStatus();
}

std::string Tuner::Report(const PlanRequest& request, const TuneOptions& options,
                          const std::vector<Trial>& trials) const {
  std::string text = absl::StrFormat("tuning at m <= %d on %s\n%4s %12s %12s  %-8s %s\n",
                                     request.bucket, core_->ports.device_name, "rank",
                                     "predicted us", "measured us", "plan", "state");
  std::vector<double> predicted, measured;
  const Trial* best = nullptr;
  for (size_t i = 0; i < trials.size(); ++i) {
    const Trial& trial = trials[i];
    const bool timed = trial.measured_us > 0;
    text += absl::StrFormat("%4d %12.2f %12s  %-8s %s\n", i + 1, trial.plan.PredictedUs(),
                            timed ? absl::StrFormat("%.2f", trial.measured_us) : "-",
                            trial.plan.name, trial.state);
    for (const PlannedKernel& kernel : trial.plan.kernels) {
      absl::StrAppend(&text, "       ", kernel.spec.schedule.ToString(), "\n");
    }
    if (!timed) continue;
    predicted.push_back(trial.plan.PredictedUs());
    measured.push_back(trial.measured_us);
    if (best == nullptr || trial.measured_us < best->measured_us) best = &trial;
  }
  text += absl::StrFormat("rank correlation of predicted and measured: %.2f of %d plans\n",
                          RankCorrelation(predicted, measured), predicted.size());
  if (best == nullptr) return text;
  const Trial& chosen = trials.front();
  const bool keep = chosen.measured_us > 0 &&
                    chosen.measured_us <= best->measured_us * (1 + options.switch_margin);
  return absl::StrCat(text,
                      keep ? "the predicted choice stands"
                           : absl::StrCat("rank ", best - trials.data() + 1, " is faster"),
                      "\n");
}

absl::StatusOr<std::string> Tuner::Tune(const PlanRequest& request, const TuneOptions& options) {
  if (core_->ports.loader == nullptr || core_->ports.measurer == nullptr) {
    return absl::UnavailableError(core_->ports.no_gpu_reason);
  }
  const BuildControl control(options.deadline_us, nullptr, nullptr);
  const auto chain = std::make_shared<const Chain>(*request.chain);
  SINTER_ASSIGN_OR_RETURN(std::vector<Trial> trials, Rank(request, options));
  Build(chain, trials, control);
  SINTER_RETURN_IF_ERROR(control.Check("measuring"));
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<Verifier> verifier,
                          Verifier::Make(core_.get(), chain, request.bucket, FixedRowsOf(*chain)));
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<Rotation> rotation,
                          Rotation::Make(core_->ports.measurer.get(), *chain, *verifier));
  LoadedPlanPtr unfused;
  for (const Trial& trial : trials) {
    if (unfused == nullptr && IsUnfused(trial.plan)) unfused = trial.loaded;
  }
  for (Trial& trial : trials) {
    if (trial.loaded == nullptr) continue;
    SINTER_RETURN_IF_ERROR(control.Check("measuring"));
    const absl::Status status = MeasureOne(unfused, *verifier, *rotation, trial);
    if (!status.ok()) trial.state = std::string(status.message());
  }
  return Report(request, options, trials);
}

}  // namespace sinter
