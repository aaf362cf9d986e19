#include "src/engine/tune.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "src/base/status.h"
#include "src/engine/measured_choice.h"
#include "src/engine/plan_builder.h"
#include "src/plan/family.h"
#include "src/reference/rows.h"

namespace sinter {
namespace {

constexpr double kPredicted = 0.04;  // of a prepare that measures

std::string Microseconds(double us) { return us > 0 ? absl::StrFormat("%.2f", us) : "-"; }

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

absl::Status Tuner::BuildOne(const Session& session, const BuildControl& control, Trial& trial) {
  SINTER_ASSIGN_OR_RETURN(const std::string toolchain, core_->ports.compiler->ToolchainId());
  PlanVariant variant;
  variant.decisions = DecisionsOf(trial.plan);
  variant.plan = trial.plan;
  SINTER_ASSIGN_OR_RETURN(
      BuiltKernels built,
      assembler_->BuildKernels({session.request, OnMiss::kBuild, control, *session.sources},
                               toolchain, &variant));
  trial.plan = std::move(variant.plan);
  std::string why;
  if (!assembler_->Resident(built, &why)) return FailedPrecondition(why);
  trial.loaded = assembler_->MakeLoaded(session.request.form, trial.plan, std::move(built));
  return absl::OkStatus();
}

void Tuner::Build(Session& session, size_t begin) {
  const BuildControl control = session.control.Quiet();
  const auto build = [&](int i) {
    Trial& trial = session.trials[begin + static_cast<size_t>(i)];
    const absl::Status status = BuildOne(session, control, trial);
    if (!status.ok()) trial.state = std::string(status.message());
  };
  reference::ForEachIndex(static_cast<int>(session.trials.size() - begin), build,
                          session.control.threads());
  for (const Trial& trial : session.trials) {
    if (session.unfused == nullptr && !trial.plan.fused) session.unfused = trial.loaded;
  }
}

// The plain plan was already checked against the reference; without it, every plan was.
bool Tuner::PassesReference(Session& session, Trial& trial) {
  if (session.unfused == nullptr || trial.loaded == session.unfused) return true;
  const absl::StatusOr<Verdict> verdict = session.verifier->Check(trial.loaded, nullptr);
  if (!verdict.ok()) {
    core_->log.Log(LogLevel::kWarn, absl::StrCat("tuned plan '", trial.plan.name(),
                                                 "' is checked against the plain plan only: ",
                                                 verdict.status().message()));
    return true;
  }
  trial.verdict.error = std::max(trial.verdict.error, verdict->error);
  if (verdict->right) return true;
  assembler_->Record(*trial.loaded, *verdict);
  trial.measured_us = trial.in_turns_us = 0;
  trial.state = absl::StrCat("wrong: ", verdict->detail);
  return false;
}

// Time at the bucket's rows, in turns where there is such a time.
double Tuner::FullUs(const Trial& trial) {
  return trial.full.empty() ? trial.measured_us : Median(trial.full);
}

// If any plan was timed in turns, only such plans have a time here.
double Tuner::DecisiveUs(const Session& session, const Trial& trial) {
  const bool turns = std::any_of(session.trials.begin(), session.trials.end(),
                                 [](const Trial& one) { return one.in_turns_us > 0; });
  return turns ? trial.in_turns_us : trial.measured_us;
}

// Whether the predicted choice was slower by the margin in all rounds but one.
bool Tuner::WinsClearly(const Session& session, const Trial& trial) {
  const std::vector<double>& first = session.trials.front().rounds;
  const size_t rounds = std::min(trial.rounds.size(), first.size());
  size_t won = 0;
  for (size_t i = 0; i < rounds; ++i) {
    if (trial.rounds[i] * (1 + session.options.switch_margin) < first[i]) ++won;
  }
  return won + 1 >= rounds;
}

Tuner::Trial* Tuner::Decide(Session& session) {
  for (;;) {
    std::vector<double> times;
    for (const Trial& trial : session.trials) times.push_back(DecisiveUs(session, trial));
    int best = ChooseMeasured(times, session.options.switch_margin);
    if (best < 0) return nullptr;
    if (session.options.protocol.only_in_turns && times.front() > 0 &&
        !WinsClearly(session, session.trials[static_cast<size_t>(best)])) {
      best = 0;
    }
    Trial& trial = session.trials[static_cast<size_t>(best)];
    if (IsRight(session, trial) && PassesReference(session, trial)) return &trial;
  }
}

absl::StatusOr<std::shared_ptr<const TuningEntry>> Tuner::MakeEntry(const Session& session,
                                                                    const Trial& taken) {
  MeasuredChoice choice;
  choice.measured_us = FullUs(taken);
  choice.untuned_us = FullUs(session.trials.front());
  choice.seed = taken.verdict.seed;
  choice.error = taken.verdict.error;
  FusionResult ranked;
  ranked.considered = session.considered;
  ranked.legal = session.legal;
  ranked.chosen = session.ranking.front();
  ranked.alternatives.assign(session.ranking.begin() + 1, session.ranking.end());
  SINTER_ASSIGN_OR_RETURN(
      TuningEntry entry,
      MakeTuningEntry(session.request, *core_, std::move(ranked), taken.plan, choice));
  return std::make_shared<const TuningEntry>(std::move(entry));
}

// One line for each plan that was tried, in the order of measuring.
std::string Tuner::Report(const Session& session, const Trial* taken) const {
  std::string text = absl::StrFormat(
      "tuning at m <= %d on %s; in turns at m = %s, the mean\n%4s %12s %12s %12s  %-8s %s\n",
      session.request.bucket, core_->ports.device_name, absl::StrJoin(session.rows, ", "), "plan",
      "predicted us", "measured us", "in turns us", "kind", "state");
  std::vector<double> predicted, measured;
  for (size_t i = 0; i < session.trials.size(); ++i) {
    const Trial& trial = session.trials[i];
    text += absl::StrFormat("%4d %12.2f %12s %12s  %-8s %s\n", i + 1, trial.plan.PredictedUs(),
                            Microseconds(trial.measured_us), Microseconds(trial.in_turns_us),
                            trial.plan.name(), trial.state);
    for (const PlannedKernel& kernel : trial.plan.kernels) {
      absl::StrAppend(&text, "       ", ScheduleText(kernel.spec), "\n");
    }
    if (trial.measured_us <= 0) continue;
    predicted.push_back(trial.plan.PredictedUs());
    measured.push_back(trial.measured_us);
  }
  text += absl::StrFormat("rank correlation of predicted and measured: %.2f of %d plans\n",
                          RankCorrelation(predicted, measured), predicted.size());
  if (taken == nullptr) return absl::StrCat(text, "no plan could be measured\n");
  if (taken == session.trials.data()) return absl::StrCat(text, "the predicted choice stands\n");
  return absl::StrCat(text, "plan ", taken - session.trials.data() + 1, " is faster\n");
}

absl::StatusOr<TuneResult> Tuner::Run(Session& session) {
  const PlanRequest& request = session.request;
  const TuneOptions& options = session.options;
  const TuningEntry* known =
      options.keep == nullptr ? nullptr : options.keep->Find(TuningKeyOf(request, *core_));
  if (known != nullptr) {
    const auto kept = UsableChoice(known->record, request, session.control, *core_);
    if (kept.ok()) {
      return TuneResult{absl::StrCat("kept: ", PlanName(kept->variants.front().decisions.fused),
                                     ", ", kept->tuning, "\n"),
                        std::make_shared<const TuningEntry>(*known)};
    }
  }
  SINTER_ASSIGN_OR_RETURN(FusionResult planned,
                          PlanForTuning(request, options.top_k, session.control, *core_));
  session.considered = planned.considered;
  session.legal = planned.legal;
  session.ranking = {std::move(planned.chosen)};
  std::move(planned.alternatives.begin(), planned.alternatives.end(),
            std::back_inserter(session.ranking));
  for (Plan& plan : PlansToTry(session.ranking, options.top_k)) {
    session.trials.emplace_back(std::move(plan));
  }
  SINTER_RETURN_IF_ERROR(TellPlanned(session.ranking.front(), kPredicted, session.control));
  Build(session, 0);
  SINTER_RETURN_IF_ERROR(Measure(session));
  const Trial* taken = Decide(session);
  TuneResult result;
  result.report = Report(session, taken);
  if (taken != nullptr) {
    SINTER_ASSIGN_OR_RETURN(result.entry, MakeEntry(session, *taken));
    result.predicted = taken == session.trials.data();
  }
  return result;
}

absl::StatusOr<TuneResult> Tuner::Tune(const PlanRequest& request, const TuneOptions& options,
                                       const BuildControl& control, Measurer* measurer) {
  if (core_->ports.loader == nullptr || measurer == nullptr) {
    return Unavailable(core_->ports.no_gpu_reason);
  }
  if (const int ranks = request.chain().ranks(); ranks > 1) {
    return FailedPrecondition(
        "the chain is split over ", ranks,
        " ranks, and a single rank cannot be measured: plans of such chains are "
        "chosen by prediction");
  }
  const EventClock clock;
  Session session{request, options, control, measurer};
  session.sources = std::make_shared<KernelSources>(core_.get());
  absl::StatusOr<TuneResult> tuned = Run(session);
  if (!core_->events.Wanted()) return tuned;
  EngineEvent event(EventKind::kTune, "plan");
  event.chain = request.chain().CanonicalDigest();
  event.bucket = request.bucket;
  event.us = clock.us();
  if (!tuned.ok()) event.reason = std::string(tuned.status().message());
  core_->events.Tell(event);
  return tuned;
}

namespace {

// Plans of other dataflows than the predicted choice's are tried if they are predicted to take at
// most this times its time.
constexpr double kWorthTrying = 1.3;

// Whether it has a kernel that planning by prediction leaves out.
bool IsForTuning(const Plan& plan) {
  return std::any_of(plan.kernels.begin(), plan.kernels.end(), [](const PlannedKernel& kernel) {
    return kernel.spec.family->TraitsOf(kernel.spec).is_for_tuning;
  });
}

// Appends the plans for tuning that are not in the ranking yet.
void AddPlans(std::vector<Plan> more, FusionResult* planned) {
  std::set<Digest> known = {planned->chosen.PlanDigest()};
  for (const Plan& plan : planned->alternatives) known.insert(plan.PlanDigest());
  for (Plan& plan : more) {
    if (IsForTuning(plan) && known.insert(plan.PlanDigest()).second) {
      planned->alternatives.push_back(std::move(plan));
    }
  }
}

bool ComputesTheSame(const PlannedKernel& a, const PlannedKernel& b) {
  return a.spec.family == b.spec.family && a.ops == b.ops &&
         ProductOf(a.spec).sequence.size() == ProductOf(b.spec).sequence.size();
}

std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double mean = (static_cast<double>(begin) + static_cast<double>(end) - 1) / 2;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = mean;
    begin = end;
  }
  return ranks;
}

}  // namespace

absl::StatusOr<FusionResult> PlanForTuning(const PlanRequest& request, int top_k,
                                           const BuildControl& control, EngineCore& core) {
  FusionOptions options;
  options.keep_going = &control;
  options.batch_invariant = request.batch_invariant;
  options.top_k = top_k;
  core.counters.searched.fetch_add(1, std::memory_order_relaxed);
  SINTER_ASSIGN_OR_RETURN(FusionResult planned, PlanOf(request, options, core));
  options.for_tuning = true;
  SINTER_ASSIGN_OR_RETURN(FusionResult more, PlanOf(request, options, core));
  more.alternatives.insert(more.alternatives.begin(), std::move(more.chosen));
  AddPlans(std::move(more.alternatives), &planned);
  return planned;
}

std::vector<Plan> PlansToTry(const std::vector<Plan>& ranking, int top_k) {
  std::vector<Plan> tried;
  bool has_unfused = false;
  const double most_us = kWorthTrying * ranking.front().PredictedUs();
  for (const Plan& plan : ranking) {
    const auto alike = std::count_if(tried.begin(), tried.end(),
                                     [&](const Plan& other) { return SameDataflows(other, plan); });
    const bool worth = alike < top_k / 4 && plan.PredictedUs() <= most_us;
    const bool room = static_cast<int>(tried.size()) < std::max(top_k, 1);
    if (!room && !worth && (has_unfused || plan.fused)) continue;
    has_unfused |= !plan.fused;
    tried.push_back(plan);
  }
  return tried;
}

bool SameCut(const Plan& a, const Plan& b) {
  return a.bucket == b.bucket && a.absorbed == b.absorbed && a.kernels.size() == b.kernels.size() &&
         std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(), ComputesTheSame);
}

bool SameDataflows(const Plan& a, const Plan& b) {
  return SameCut(a, b) && std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(),
                                     [](const PlannedKernel& x, const PlannedKernel& y) {
                                       return ProductOf(x.spec).schedule.dataflow ==
                                              ProductOf(y.spec).schedule.dataflow;
                                     });
}

std::vector<Decisions> KernelSwaps(const Plan& plan, size_t kernel,
                                   const std::vector<Plan>& ranking, size_t limit) {
  std::set<std::string> seen = {ScheduleBytes(plan.kernels[kernel].spec)};
  const Decisions own = DecisionsOf(plan);
  std::vector<Decisions> swaps;
  size_t considered = 0;
  for (const Plan& other : ranking) {
    if (!SameCut(plan, other)) continue;
    if (considered++ == limit) break;
    if (!seen.insert(ScheduleBytes(other.kernels[kernel].spec)).second) continue;
    swaps.push_back(own);
    swaps.back().kernels[kernel] = DecisionsOf(other).kernels[kernel];
  }
  return swaps;
}

double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = Ranks(a), y = Ranks(b);
  const double mean = (static_cast<double>(x.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace sinter
