// Tuner: which plans are measured, and how.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/engine/bound_plan.h"
#include "src/engine/kernel_swaps.h"
#include "src/engine/time_in_turns.h"
#include "src/engine/tune_session.h"

namespace sinter {
namespace {

constexpr int kCalls = 20;
constexpr int kReplays = 15;
// The fastest so many, and the predicted choice, are timed again, in turns.
constexpr size_t kShortList = 6;
constexpr int kRounds = 7;
constexpr double kTurnUs = 20e3;  // of one plan in one round
// A cut whose best plan takes longer than this times the fastest is not worth its kernels' times.
constexpr double kNear = 1.15;

}  // namespace

absl::StatusOr<double> Tuner::Time(Session& session, const Trial& trial, int replays) {
  SINTER_ASSIGN_OR_RETURN(const std::vector<std::shared_ptr<const BoundPlan>> bound,
                          session.rotation->Bind(trial.loaded, *core_->ports.loader));
  const auto enqueue = [&](StreamHandle stream, int call) {
    return EnqueuePlan(*bound[static_cast<size_t>(call) % bound.size()], stream,
                       session.verifier->rows(), false);
  };
  return core_->ports.measurer->TimeGraph(enqueue, std::max(kCalls, static_cast<int>(bound.size())),
                                          replays);
}

absl::Status Tuner::MeasureOne(Session& session, Trial& trial) {
  SINTER_ASSIGN_OR_RETURN(trial.verdict, session.verifier->Check(trial.loaded, session.unfused));
  assembler_->Record(*trial.loaded, trial.verdict);
  if (!trial.verdict.right) {
    return absl::DataLossError(absl::StrCat("wrong: ", trial.verdict.detail));
  }
  SINTER_ASSIGN_OR_RETURN(trial.measured_us, Time(session, trial, kReplays));
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
  std::vector<double> times;
  for (const Trial& trial : session.trials) {
    times.push_back(SameCut(trial.plan, cut) ? trial.measured_us : 0);
  }
  return ChooseMeasured(times, 0);
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
  // Predictions of stitched kernels are the least sure: all that planning offers is tried.
  const bool stitched = plan.kernels[kernel].spec.family == KernelFamily::kStitch;
  const size_t limit =
      stitched ? session.ranking.size() : static_cast<size_t>(std::max(session.options.top_k, 1));
  for (Plan& swap : KernelSwaps(plan, kernel, session.ranking, limit)) {
    const bool tried = std::any_of(
        session.trials.begin(), session.trials.begin() + static_cast<ptrdiff_t>(begin),
        [&](const Trial& trial) { return trial.plan.PlanDigest() == swap.PlanDigest(); });
    if (!tried) session.trials.emplace_back(std::move(swap));
  }
  Build(session, begin);
  return MeasureFrom(session, begin);
}

// The predicted choice comes first, so that whatever a deadline leaves can be compared with it.
absl::Status Tuner::Measure(Session& session) {
  SINTER_RETURN_IF_ERROR(session.control.Check("measuring"));
  SINTER_ASSIGN_OR_RETURN(session.verifier,
                          Verifier::Make(core_.get(), session.chain, session.request.bucket,
                                         FixedRowsOf(*session.chain)));
  SINTER_ASSIGN_OR_RETURN(session.rotation, Rotation::Make(core_->ports.measurer.get(),
                                                           *session.chain, *session.verifier));
  SINTER_RETURN_IF_ERROR(MeasureFrom(session, 0));
  SINTER_RETURN_IF_ERROR(TryKernels(session));
  TimeShortList(session);
  return absl::OkStatus();
}

// The fastest, and the predicted choice, in turns. Without a whole round, in time and without an
// error, the first times decide.
void Tuner::TimeShortList(Session& session) {
  std::vector<Trial*> list;
  for (Trial& trial : session.trials) {
    if (trial.measured_us > 0) list.push_back(&trial);
  }
  std::sort(list.begin(), list.end(),
            [](const Trial* a, const Trial* b) { return a->measured_us < b->measured_us; });
  list.resize(std::min(list.size(), kShortList));
  Trial& predicted = session.trials.front();
  const bool listed = std::find(list.begin(), list.end(), &predicted) != list.end();
  if (predicted.measured_us > 0 && !listed) list.push_back(&predicted);
  const auto time = [&](int i) {
    const Trial& trial = *list[static_cast<size_t>(i)];
    const double replays = kTurnUs / (trial.measured_us * kCalls);
    return Time(session, trial, std::clamp(static_cast<int>(replays), 3, kReplays));
  };
  const absl::StatusOr<std::vector<double>> times =
      TimeInTurns(static_cast<int>(list.size()), kRounds, time,
                  [&] { return session.control.Check("measuring").ok(); });
  if (!times.ok()) {
    core_->log.Log(LogLevel::kWarn,
                   absl::StrCat("tuning decides by first times: ", times.status().message()));
    return;
  }
  for (size_t i = 0; i < times->size(); ++i) list[i]->in_turns_us = (*times)[i];
}

}  // namespace sinter
