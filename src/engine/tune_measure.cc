// The part of Tuner that chooses what to measure, and measures it.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/digest.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/engine/bound_plan.h"
#include "src/engine/tune.h"
#include "src/engine/verify.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

constexpr int kCalls = 20;
constexpr double kMeasuring = 0.05, kMeasured = 0.1;  // of a prepare that measures
// So many of the fastest, and the predicted choice, are timed again in turns.
constexpr size_t kShortList = 6;
constexpr double kTurnUs = 20e3;  // of one plan in one round
// A cut whose best plan takes longer than this times the fastest is not refined kernel by kernel.
constexpr double kNear = 1.15;

// Whether each run takes the next copy of the buffer.
bool Rotates(const Chain& chain, size_t buffer) {
  if (chain.MatmulFlops(1) == 0) return true;
  const int i = static_cast<int>(buffer);
  return i < chain.num_inputs() && chain.input_op(i).constant;
}

}  // namespace

absl::StatusOr<double> Tuner::Time(Session& session, Trial& trial, int64_t rows, int replays) {
  std::vector<std::shared_ptr<const BoundPlan>> bound = trial.bound;
  if (bound.empty()) {
    SINTER_ASSIGN_OR_RETURN(bound, session.rotation->Bind(trial.loaded, *core_->ports.loader));
  }
  if (session.options.protocol.only_in_turns) trial.bound = bound;
  const auto of = [&](int call) -> const BoundPlan& {
    return *bound[static_cast<size_t>(call) % bound.size()];
  };
  const GraphCalls calls{
      [&](StreamHandle stream, int call) { return EnqueuePlan(of(call), stream, rows, false); },
      [&](GraphHandle graph, const NodeEdges& edges, int call) -> absl::StatusOr<NodeEdges> {
        SINTER_ASSIGN_OR_RETURN(const PlanNodes nodes,
                                AddPlanNodes(of(call), *core_->ports.loader, graph, edges, rows));
        return NodeEdges{{nodes.nodes.back()}};
      }};
  return session.measurer->TimeGraph(calls, std::max(kCalls, static_cast<int>(bound.size())),
                                     replays);
}

std::string Tuner::TimedAs(const Session& session, const std::vector<Trial*>& trials,
                           const std::vector<int64_t>& rows) const {
  const Chain& chain = session.request.chain();
  const TuneProtocol& protocol = session.options.protocol;
  ByteWriter w;
  w(core_->ports.device_name, core_->ports.driver_name, core_->ports.ordinal, rows,
    protocol.replays, protocol.rounds, protocol.only_in_turns);
  for (int i = 0; i < chain.num_inputs(); ++i) {
    w(ToString(chain.input_op(i).type), Rotates(chain, static_cast<size_t>(i)));
  }
  for (int i = 0; i < chain.num_outputs(); ++i) w(ToString(chain.output_type(i)));
  for (const Trial* const trial : trials) {
    const LoadedPlan& loaded = *trial->loaded;
    w(loaded.plan.workspace_bytes, uint64_t{loaded.kernels.size()});
    for (size_t i = 0; i < loaded.kernels.size(); ++i) {
      w(loaded.kernels[i]->key, loaded.recipes[i].Encode());
    }
  }
  return std::string(Sha256(w.str()).View());
}

absl::Status Tuner::MeasureOne(Session& session, Trial& trial) {
  const std::string what = TimedAs(session, {&trial}, {session.rows.front()});
  std::vector<double> us = core_->ports.known_times->Find(what);
  if (us.empty()) {
    us.resize(1);
    SINTER_ASSIGN_OR_RETURN(
        us[0], Time(session, trial, session.rows.front(), session.options.protocol.replays));
    core_->ports.known_times->Insert(what, us);
  }
  trial.measured_us = us[0];
  trial.state = "not checked";
  return absl::OkStatus();
}

// Whether a timed plan computes what the unfused one does. Checked at most once, and only where its
// time matters: checking a large output takes a thousand times as long as timing it. A plan that is
// wrong, or cannot be checked, loses its time.
bool Tuner::IsRight(Session& session, Trial& trial) {
  if (trial.checked) return trial.measured_us > 0;
  trial.checked = true;
  const absl::StatusOr<Verdict> verdict = session.verifier->Check(trial.loaded, session.unfused);
  if (verdict.ok()) {
    trial.verdict = *verdict;
    assembler_->Record(*trial.loaded, *verdict);
  }
  const bool right = verdict.ok() && verdict->right;
  if (!right) trial.measured_us = 0;
  trial.state = right          ? "ok"
                : verdict.ok() ? absl::StrCat("wrong: ", verdict->detail)
                               : std::string(verdict.status().message());
  return right;
}

// Measures the trials from `begin` on. The very first trial must be measured in time.
absl::Status Tuner::MeasureFrom(Session& session, size_t begin) {
  bool any = begin > 0;
  for (size_t i = begin; i < session.trials.size(); ++i) {
    Trial& trial = session.trials[i];
    if (trial.loaded == nullptr) continue;
    const double done = static_cast<double>(i) / static_cast<double>(session.trials.size());
    const absl::Status in_time =
        session.control.Enter(absl::StrCat("measure: plan ", i + 1, " of ", session.trials.size()),
                              kMeasuring + (kMeasured - kMeasuring) * done);
    if (!in_time.ok() && !any) return in_time;
    const absl::Status status = in_time.ok() ? MeasureOne(session, trial) : in_time;
    if (!status.ok()) trial.state = std::string(status.message());
    any |= status.ok();
  }
  return absl::OkStatus();
}

// The fastest right trial among those for which `among` holds; null when there is none.
const Tuner::Trial* Tuner::Fastest(Session& session,
                                   const std::function<bool(const Trial&)>& among) {
  for (;;) {
    std::vector<double> times;
    for (const Trial& trial : session.trials) {
      times.push_back(among(trial) ? trial.measured_us : 0);
    }
    const int best = ChooseMeasured(times, 0);
    if (best < 0) return nullptr;
    Trial& trial = session.trials[static_cast<size_t>(best)];
    if (IsRight(session, trial)) return &trial;
  }
}

// For each cut whose best plan is near the fastest, each kernel in turn tries the schedules of its
// ranking while the others stay. It is needed because the i-th plan of a ranking has the i-th
// schedule of every kernel: the best schedule of one kernel was timed together with others that may
// be slow.
absl::Status Tuner::TryKernels(Session& session) {
  const Trial* const fastest = Fastest(session, [](const Trial&) { return true; });
  if (fastest == nullptr) return absl::OkStatus();
  const double near_us = kNear * fastest->measured_us;
  std::vector<Plan> cuts;
  for (const Trial& trial : session.trials) {
    if (trial.measured_us <= 0) continue;
    const bool known = std::any_of(cuts.begin(), cuts.end(),
                                   [&](const Plan& cut) { return SameCut(cut, trial.plan); });
    if (!known) cuts.push_back(trial.plan);
  }
  for (const Plan& cut : cuts) {
    for (size_t kernel = 0; kernel < cut.kernels.size(); ++kernel) {
      const Trial* const best = Fastest(session, [&](const Trial& trial) {
        return trial.measured_us <= near_us && SameCut(trial.plan, cut);
      });
      if (best == nullptr) break;
      SINTER_RETURN_IF_ERROR(TrySwaps(session, best->plan, kernel));
    }
  }
  return absl::OkStatus();
}

absl::Status Tuner::TrySwaps(Session& session, Plan plan, size_t kernel) {
  if (!session.control.Check("measuring").ok()) return absl::OkStatus();  // so far as it got
  const size_t begin = session.trials.size();
  // Where predictions are least reliable, all that planning offers is tried.
  const bool all = plan.kernels[kernel].spec.family->traits().measures_all;
  const size_t limit =
      all ? session.ranking.size() : static_cast<size_t>(std::max(session.options.top_k, 1));
  const PlanAssembly assemble = core_->AssemblyOf(
      session.request.planned(), session.request.bucket, core_->ports.model,
      {session.request.batch_invariant, session.request.allow_cooperative, &session.control});
  for (const Decisions& decisions : KernelSwaps(plan, kernel, session.ranking, limit)) {
    absl::StatusOr<AssembledPlan> assembled = assemble(decisions);
    if (!assembled.ok()) continue;
    Plan& swap = assembled->plan;
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
  SINTER_ASSIGN_OR_RETURN(
      session.verifier,
      Verifier::Make(core_.get(), session.request.form->callers, session.request.bucket,
                     FixedRowsOf(session.request.planned()), session.measurer));
  session.rows = RowsToTime(session.request.planned(), session.verifier->rows());
  SINTER_ASSIGN_OR_RETURN(
      session.rotation,
      Rotation::Make(session.measurer, session.request.chain(), *session.verifier));
  SINTER_RETURN_IF_ERROR(MeasureFrom(session, 0));
  if (session.options.protocol.swap_kernels) SINTER_RETURN_IF_ERROR(TryKernels(session));
  const absl::Status in_turns = TimeShortList(session);
  if (in_turns.ok() || session.options.protocol.only_in_turns) return in_turns;
  core_->log.Log(LogLevel::kWarn,
                 absl::StrCat("tuning decides by first times: ", in_turns.message()));
  return absl::OkStatus();
}

// The fastest right trials, and the predicted choice if it is right.
std::vector<Tuner::Trial*> Tuner::ShortList(Session& session) {
  std::vector<Trial*> timed, list;
  for (Trial& trial : session.trials) {
    if (trial.measured_us > 0) timed.push_back(&trial);
  }
  std::sort(timed.begin(), timed.end(),
            [](const Trial* a, const Trial* b) { return a->measured_us < b->measured_us; });
  for (Trial* const trial : timed) {
    const bool wanted = list.size() < kShortList || trial == &session.trials.front();
    if (wanted && IsRight(session, *trial)) list.push_back(trial);
  }
  return list;
}

// Times the short list in turns. If no whole round was finished, the first times decide, or, where
// they may not, the tuning is given up.
absl::Status Tuner::TimeShortList(Session& session) {
  const std::vector<Trial*> list = ShortList(session);
  const TuneProtocol& protocol = session.options.protocol;
  const std::string what = TimedAs(session, list, session.rows);
  if (TakeKnownTurns(core_->ports.known_times->Find(what), list)) return absl::OkStatus();
  const auto time = [&](int i) -> absl::StatusOr<double> {
    Trial& trial = *list[static_cast<size_t>(i)];
    const double replays = kTurnUs / (trial.measured_us * kCalls);
    const int times = std::min(std::max(static_cast<int>(replays), 3), protocol.replays);
    double sum = 0;
    for (const int64_t rows : session.rows) {
      SINTER_ASSIGN_OR_RETURN(const double us, Time(session, trial, rows, times));
      if (rows == session.rows.front()) trial.full.push_back(us);
      sum += us;
    }
    trial.rounds.push_back(sum / static_cast<double>(session.rows.size()));
    return trial.rounds.back();
  };
  SINTER_ASSIGN_OR_RETURN(const std::vector<double> times,
                          TimeInTurns(static_cast<int>(list.size()), protocol.rounds, time,
                                      [&] { return session.control.Check("measuring").ok(); }));
  for (size_t i = 0; i < times.size(); ++i) list[i]->in_turns_us = times[i];
  const absl::Status in_time = session.control.Check("the choice was made");
  if (in_time.ok()) core_->ports.known_times->Insert(what, TurnsOf(list));
  return protocol.only_in_turns ? in_time : absl::OkStatus();
}

// The values of each plan are the median of its rounds, their means, and their times at all rows.
std::vector<double> Tuner::TurnsOf(const std::vector<Trial*>& list) {
  std::vector<double> turns;
  for (const Trial* const trial : list) {
    turns.push_back(trial->in_turns_us);
    turns.insert(turns.end(), trial->rounds.begin(), trial->rounds.end());
    turns.insert(turns.end(), trial->full.begin(), trial->full.end());
  }
  return turns;
}

// False if `turns`, which TurnsOf made for equal work, is empty.
bool Tuner::TakeKnownTurns(const std::vector<double>& turns, const std::vector<Trial*>& list) {
  if (turns.empty()) return false;
  const auto each = static_cast<std::ptrdiff_t>(turns.size() / list.size());
  auto at = turns.begin();
  for (Trial* const trial : list) {
    trial->in_turns_us = *at;
    trial->rounds.assign(at + 1, at + 1 + each / 2);
    trial->full.assign(at + 1 + each / 2, at + each);
    at += each;
  }
  return true;
}

namespace {

constexpr uint64_t kRotationBytes = uint64_t{240} << 20;
constexpr uint64_t kMaxSets = 16384;
constexpr uint64_t kUploadBytes = uint64_t{8} << 20;  // least size of one upload
constexpr size_t kAlignment = 256;

}  // namespace

std::vector<int64_t> RowsToTime(const Chain& chain, int64_t rows) {
  std::vector<int64_t> all = {rows};
  if (!chain.UsesM()) return all;
  const int64_t bucket = BucketOf(chain, rows);
  int64_t least = 1;
  for (int64_t end = rows; least < end;) {
    const int64_t middle = (least + end) / 2;
    if (BucketOf(chain, middle) < bucket) {
      least = middle + 1;
    } else {
      end = middle;
    }
  }
  for (const int64_t inside : {least, (least + rows) / 2}) {
    if (inside != all.back()) all.push_back(inside);
  }
  return all;
}

int RotationSets(uint64_t set_bytes) {
  const uint64_t sets = kRotationBytes / std::max<uint64_t>(set_bytes, 1) + 1;
  return static_cast<int>(std::min(sets, kMaxSets));
}

absl::StatusOr<std::unique_ptr<Rotation>> Rotation::Make(Measurer* measurer, const Chain& chain,
                                                         const Verifier& data) {
  std::unique_ptr<Rotation> rotation(new Rotation(measurer));
  Layout layout;
  layout.offsets.assign(data.pointers().size(), -1);
  layout.num_inputs = data.inputs().size();
  for (size_t i = 0; i < layout.offsets.size(); ++i) {
    if (!Rotates(chain, i)) continue;
    if (i < layout.num_inputs) {
      layout.offsets[i] = static_cast<int64_t>(layout.inputs.size());
      layout.inputs += data.inputs()[i];
      layout.inputs.resize(RoundUp(layout.inputs.size(), kAlignment));
      continue;
    }
    const int output = static_cast<int>(i - layout.num_inputs);
    SINTER_ASSIGN_OR_RETURN(const int64_t bytes, OutputBytes(chain, output, data.rows()));
    layout.offsets[i] = static_cast<int64_t>(layout.output_bytes);
    layout.output_bytes += RoundUp(bytes, kAlignment);
  }
  rotation->sets_.push_back(data.pointers());
  const uint64_t bytes = layout.inputs.size() + layout.output_bytes;
  SINTER_RETURN_IF_ERROR(rotation->AddSets(bytes == 0 ? 0 : RotationSets(bytes) - 1, layout));
  return rotation;
}

absl::Status Rotation::UploadInputs(DevicePtr to, uint64_t total, const std::string& inputs) {
  if (total == 0) return absl::OkStatus();
  std::string block = inputs;
  while (block.size() < kUploadBytes && block.size() < total) block += inputs;
  for (uint64_t at = 0; at < total; at += block.size()) {
    const uint64_t bytes = std::min<uint64_t>(block.size(), total - at);
    SINTER_RETURN_IF_ERROR(measurer_->Upload({to + at, bytes}, block.data(), bytes));
  }
  return absl::OkStatus();
}

// One allocation for all sets, so that thousands of small sets take no more memory than they hold:
// the inputs of all sets, then their outputs.
absl::Status Rotation::AddSets(int count, const Layout& layout) {
  if (count == 0) return absl::OkStatus();
  const uint64_t input_bytes = layout.inputs.size();
  const uint64_t all_inputs = static_cast<uint64_t>(count) * input_bytes;
  SINTER_ASSIGN_OR_RETURN(
      const DeviceBuffer all,
      arena_.Allocate(all_inputs + static_cast<uint64_t>(count) * layout.output_bytes));
  SINTER_RETURN_IF_ERROR(UploadInputs(all.ptr, all_inputs, layout.inputs));
  const std::vector<DevicePtr> first = sets_.front();
  for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i) {
    std::vector<DevicePtr> pointers = first;
    for (size_t j = 0; j < pointers.size(); ++j) {
      if (layout.offsets[j] < 0) continue;
      const DevicePtr set = j < layout.num_inputs ? all.ptr + i * input_bytes
                                                  : all.ptr + all_inputs + i * layout.output_bytes;
      pointers[j] = set + static_cast<uint64_t>(layout.offsets[j]);
    }
    sets_.push_back(std::move(pointers));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::shared_ptr<const BoundPlan>>> Rotation::Bind(
    const LoadedPlanPtr& plan, Loader& loader) {
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace,
                          arena_.Allocate(plan->plan.workspace_bytes));
  SINTER_RETURN_IF_ERROR(measurer_->RunAndWait(
      [&](StreamHandle stream) { return ClearHeader(plan->plan, loader, workspace.ptr, stream); }));
  std::vector<std::shared_ptr<const BoundPlan>> bound;
  for (const std::vector<DevicePtr>& set : sets_) {
    SINTER_ASSIGN_OR_RETURN(std::shared_ptr<const BoundPlan> one,
                            BindPlan(plan, set, workspace.ptr));
    bound.push_back(std::move(one));
  }
  return bound;
}

absl::StatusOr<std::vector<double>> TimeInTurns(
    int count, int rounds, const std::function<absl::StatusOr<double>(int)>& time,
    const std::function<bool()>& go_on) {
  std::vector<std::vector<double>> times(static_cast<size_t>(count));
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> one;
    for (int i = 0; i < count && go_on(); ++i) {
      SINTER_ASSIGN_OR_RETURN(const double us, time(i));
      one.push_back(us);
    }
    if (one.size() < times.size()) break;
    for (size_t i = 0; i < times.size(); ++i) times[i].push_back(one[i]);
  }
  std::vector<double> medians;
  for (std::vector<double>& all : times) {
    if (all.empty()) return std::vector<double>();
    medians.push_back(Median(std::move(all)));
  }
  return medians;
}

}  // namespace sinter
