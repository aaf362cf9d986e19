#include "tests/bench/measure_graph.h"

#include "tests/bench/graph_check.h"
#include "tests/bench/runnable.h"

namespace sinter::bench {
namespace {

constexpr double kStepSeconds = 120;  // of wall time, for the slowest step: the reference
constexpr int64_t kMostSets = 16384, kMostLaunches = int64_t{1} << 16;
constexpr int kManyCalls = 2048, kFewReplays = 5;

using PlanOr = absl::StatusOr<std::shared_ptr<const PreparedPlan>>;

int KernelsOf(const std::shared_ptr<const PreparedPlan>& plan) {
  return static_cast<int>(plan->plan().kernels.size());
}

// One plan on one set of data.
struct GraphContestant {
  std::string name;
  std::shared_ptr<const PreparedPlan> plan;
  std::optional<double> cold_us, host_us;
};

class GraphRun {
 public:
  GraphRun(Measurer* measurer, const DeviceModel& model, const GraphCase& c,
           const PreparedGraph& prepared, const GraphOptions& options,
           gpu_testing::Watchdog* watchdog)
      : measurer_(measurer),
        model_(model),
        case_(c),
        prepared_(prepared),
        options_(options),
        watchdog_(watchdog) {}

  GraphRow Run() {
    Describe();
    row_.correct = true;
    if (!absl::IsNotFound(prepared_.unfused.status())) Add("unfused", prepared_.unfused);
    Add("chosen", prepared_.best);
    if (!absl::IsNotFound(prepared_.untuned.status())) Add("untuned", prepared_.untuned);
    const absl::Status status = contestants_.empty() ? absl::OkStatus() : MeasureAll();
    if (!status.ok()) Fail("bench", status);
    Keep();
    if (watchdog_ != nullptr) watchdog_->End();
    return std::move(row_);
  }

 private:
  void Step(absl::string_view what) {
    if (watchdog_ != nullptr) watchdog_->Begin(absl::StrCat(case_.id, " ", what), kStepSeconds);
  }
  void Fail(absl::string_view who, const absl::Status& status) {
    row_.correct = false;
    row_.notes.push_back(absl::StrCat(who, ": ", status.message()));
  }

  void Describe() {
    row_.id = case_.id;
    row_.problem = case_.line;
    row_.ops = case_.Ops();
    row_.bytes = static_cast<double>(case_.Bytes());
    row_.limit_us = case_.LimitUs(model_);
    row_.prepare_us = prepared_.prepare_us;
    if (prepared_.unfused.ok()) row_.unfused_kernels = KernelsOf(*prepared_.unfused);
    row_.unfused_predicted_us = prepared_.unfused_predicted_us;
    if (!prepared_.best.ok()) return;
    row_.chosen = std::string((*prepared_.best)->plan().name());
    row_.kernels = KernelsOf(*prepared_.best);
    row_.predicted_us = (*prepared_.best)->plan().PredictedUs();
  }

  // A plan that takes part under another name already is not measured twice.
  void Add(const char* name, const PlanOr& plan) {
    if (!plan.ok()) return Fail(name, plan.status());
    for (const GraphContestant& other : contestants_) {
      if (other.plan->plan().PlanDigest() == (*plan)->plan().PlanDigest()) return;
    }
    contestants_.push_back({name, *plan, std::nullopt, std::nullopt});
  }

  absl::Status MeasureAll() {
    for (int seed = 1; seed <= std::max(1, options_.seeds); ++seed) {
      SINTER_RETURN_IF_ERROR(MeasureSeed(static_cast<uint64_t>(seed)));
    }
    return absl::OkStatus();
  }

  // Only the first seed's data rotates and is timed.
  absl::Status MeasureSeed(uint64_t seed) {
    const bool time = options_.time && seed == 1;
    int kernels = 1;
    for (const GraphContestant& one : contestants_) {
      kernels = std::max(kernels, KernelsOf(one.plan));
    }
    const int64_t sets = time ? GraphSets(case_, kernels) : 1;
    if (time) row_.rotation_bytes = static_cast<double>(sets) * row_.bytes;
    Step("data");
    SINTER_ASSIGN_OR_RETURN(data_, GraphData::Make(measurer_, case_.chain, case_.m, seed, sets));
    Step("reference");
    SINTER_ASSIGN_OR_RETURN(
        expected_, GraphExpected::Make(case_, data_->inputs(), seed, options_.full_elements));
    row_.checked = expected_.how();
    for (GraphContestant& one : contestants_) {
      const absl::Status status = CheckAndTime(&one, seed, time);
      if (!status.ok()) Fail(absl::StrCat(one.name, ", seed ", seed), status);
    }
    return absl::OkStatus();
  }

  absl::Status CheckAndTime(GraphContestant* one, uint64_t seed, bool time) {
    SINTER_RETURN_IF_ERROR(Check(*one, false));
    if (HasAliases()) SINTER_RETURN_IF_ERROR(Check(*one, true));
    if (!time) return absl::OkStatus();
    Step(absl::StrCat(one->name, " cold"));
    SINTER_ASSIGN_OR_RETURN(const Runnable run, MakeRunnable(*one, false, data_->sets()));
    SINTER_RETURN_IF_ERROR(data_->Reset(HasAliases()));
    SINTER_ASSIGN_OR_RETURN(one->cold_us, TimeInGraph(measurer_, run, Timing(run)));
    // Sums in a free order differ in their last bits from run to run: bounds, not bytes.
    SINTER_RETURN_IF_ERROR(Judge(false));
    Step(absl::StrCat(one->name, " host time"));
    SINTER_ASSIGN_OR_RETURN(one->host_us, HostUs(measurer_, run, KernelsOf(one->plan)));
    return absl::OkStatus();
  }

  bool HasAliases() const {
    for (const ChainOutput& out : case_.chain.outputs()) {
      if (out.alias_input >= 0) return true;
    }
    return false;
  }

  absl::StatusOr<Runnable> MakeRunnable(const GraphContestant& one, bool in_place, size_t sets) {
    std::vector<std::vector<DevicePtr>> pointers;
    for (size_t i = 0; i < sets; ++i) pointers.push_back(data_->CallerSet(i, in_place));
    return RunnableOf(measurer_, one.plan, case_.m, pointers);
  }

  // One computation into poisoned outputs.
  absl::Status Check(const GraphContestant& one, bool in_place) {
    Step(absl::StrCat(one.name, in_place ? " run in place" : " run"));
    SINTER_ASSIGN_OR_RETURN(const Runnable run, MakeRunnable(one, in_place, 1));
    SINTER_RETURN_IF_ERROR(data_->Reset(HasAliases()));
    SINTER_RETURN_IF_ERROR(
        measurer_->RunAndWait([&](StreamHandle stream) { return run.enqueue(stream, 0, false); }));
    if (expected_.NeedsOutputs() && one.name == "unfused") {
      SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> outputs, data_->Download(in_place));
      SINTER_RETURN_IF_ERROR(expected_.SetFromOutputs(case_, outputs));
    }
    const absl::Status status = Judge(in_place);
    return in_place && !status.ok() ? Annotate(status, "in place") : status;
  }

  absl::Status Judge(bool in_place) {
    SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> outputs, data_->Download(in_place));
    SINTER_ASSIGN_OR_RETURN(const GraphErrors errors, expected_.Judge(case_, outputs));
    row_.rel_error = std::max(row_.rel_error.value_or(0), errors.relative);
    row_.max_error = std::max(row_.max_error.value_or(0), errors.max_over_rms);
    return absl::OkStatus();
  }

  TimingOptions Timing(const Runnable& run) const {
    TimingOptions timing{true, false, options_.replays, case_.Calls(model_)};
    if (CallsOf(run, timing) > kManyCalls) timing.replays = std::min(timing.replays, kFewReplays);
    return timing;
  }

  void Keep() {
    for (const GraphContestant& one : contestants_) {
      const auto is = [&](const PlanOr& plan) {
        return plan.ok() && (*plan)->plan().PlanDigest() == one.plan->plan().PlanDigest();
      };
      if (is(prepared_.unfused)) row_.unfused_us = one.cold_us;
      if (is(prepared_.untuned)) row_.untuned_us = one.cold_us;
      if (!is(prepared_.best)) continue;
      row_.chosen_us = one.cold_us;
      row_.host_us = one.host_us;
    }
  }

  Measurer* const measurer_;
  const DeviceModel& model_;
  const GraphCase& case_;
  const PreparedGraph& prepared_;
  const GraphOptions& options_;
  gpu_testing::Watchdog* const watchdog_;
  std::unique_ptr<GraphData> data_;
  GraphExpected expected_;
  std::vector<GraphContestant> contestants_;
  GraphRow row_;
};

double UnfusedPredictedUs(const GraphCase& c, const DeviceModel& model) {
  const absl::StatusOr<FusionResult> planned = PlanChain(c.chain, BucketOf(c.m), model, {});
  if (!planned.ok()) return 0;
  if (!planned->chosen.fused) return planned->chosen.PredictedUs();
  for (const Plan& plan : planned->alternatives) {
    if (!plan.fused) return plan.PredictedUs();
  }
  return 0;
}

}  // namespace

PreparedGraph PrepareGraph(Engine* engine, Engine* untuned, const PrepareOptions& chosen,
                           const GraphCase& c, bool with_unfused) {
  Engine* const rest = untuned == nullptr ? engine : untuned;
  PrepareOptions unfused{.choice = PrepareOptions::Choice::kUnfused};
  const auto start = std::chrono::steady_clock::now();
  PlanOr best = engine->Prepare(c.chain, c.m, chosen);
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  PreparedGraph prepared{std::move(best), absl::NotFoundError("not asked for"),
                         absl::NotFoundError("not asked for"), took.count(), 0};
  if (untuned != nullptr) prepared.untuned = untuned->Prepare(c.chain, c.m, {});
  if (!with_unfused) {
    prepared.unfused_predicted_us = UnfusedPredictedUs(c, engine->ports().model);
    return prepared;
  }
  prepared.unfused = rest->Prepare(c.chain, c.m, unfused);
  if (prepared.unfused.ok()) {
    prepared.unfused_predicted_us = (*prepared.unfused)->plan().PredictedUs();
  }
  return prepared;
}

int64_t GraphSets(const GraphCase& c, int kernels) {
  const int64_t most = std::min(kMostSets, kMostLaunches / std::max(1, kernels));
  return std::clamp<int64_t>(RotationSets(c.Bytes()), 1, std::max<int64_t>(2, most));
}

GraphRow MeasureGraph(Measurer* measurer, const DeviceModel& model, const GraphCase& c,
                      const PreparedGraph& prepared, const GraphOptions& options,
                      gpu_testing::Watchdog* watchdog) {
  return GraphRun(measurer, model, c, prepared, options, watchdog).Run();
}

}  // namespace sinter::bench
