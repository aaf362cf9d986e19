#include "tests/bench/measure.h"

#include "src/engine/tune.h"
#include "tests/bench/check.h"
#include "tests/bench/contestant.h"

namespace sinter::bench {
namespace {

constexpr double kCaseSeconds = 30;  // of wall time, for the slowest step: reference or timing
constexpr int kManyCalls = 2048, kFewReplays = 5;
constexpr int kRounds = 3;                 // in which all contestants are timed cold
constexpr double kLtRelativeBound = 2e-2;  // its C is rounded, and so is the gate's product

std::optional<double> Larger(std::optional<double> a, double b) {
  return a.has_value() ? std::max(*a, b) : b;
}

class CaseRun {
 public:
  CaseRun(const Ports& ports, const Case& c, const PreparedCase& prepared,
          const std::optional<LtContext>& lt, const MeasureOptions& options,
          gpu_testing::Watchdog* watchdog)
      : ports_(ports),
        measurer_(ports.measurer.get()),
        case_(c),
        prepared_(prepared),
        lt_(lt),
        options_(options),
        watchdog_(watchdog) {}

  Row Run() {
    row_ = RowOf(case_, prepared_, ports_.model);
    row_.correct = true;
    const absl::Status status = MeasureAll();
    if (!status.ok()) Fail("bench", status);
    watchdog_->End();
    return std::move(row_);
  }

 private:
  void Step(absl::string_view what) {
    watchdog_->Begin(
        absl::StrCat(case_.id, " ", NameOf(case_.matched.sequence.layout()), " ", what),
        kCaseSeconds);
  }
  void Note(absl::string_view who, absl::string_view what) {
    row_.notes.push_back(absl::StrCat(who, ": ", what));
  }
  void Fail(absl::string_view who, const absl::Status& status) {
    row_.correct = false;
    Note(who, status.message());
  }

  absl::Status MeasureAll() {
    Step("data");
    SINTER_ASSIGN_OR_RETURN(
        data_, GraphData::MakeOfWeights(measurer_, case_.chain, case_.m, 1, options_.time));
    Step("reference");
    SINTER_ASSIGN_OR_RETURN(expected_,
                            Expected::Make(case_, data_->inputs(), options_.check_rows, 1));
    if (!prepared_.best.ok()) Fail("chosen", prepared_.best.status());
    if (options_.fused) Take("fused", prepared_.fused);
    if (options_.unfused) Take("unfused", prepared_.unfused);
    if (options_.chosen) TakeUnlessThere("chosen", prepared_.best);
    if (options_.chosen && prepared_.untuned.ok()) TakeUnlessThere("untuned", prepared_.untuned);
    if (options_.batch_invariant) TakeUnlessThere("batch-invariant", prepared_.batch_invariant);
    CheckAll();
    const absl::Status cold = options_.time ? TimeColdInTurns() : absl::OkStatus();
    if (!cold.ok()) Fail("cold", cold);
    for (Contestant& one : contestants_) {
      const absl::Status status = TimeTheRest(one);
      if (!status.ok()) Fail(one.name, status);
      KeepFigures(one, prepared_, options_.batch_invariant, &row_);
    }
    MeasureHost();
    SINTER_RETURN_IF_ERROR(CheckOtherSeeds());
    const absl::Status lt = TimeTheRestOfCublasLt();
    if (!lt.ok()) Note(lt_run_.name, lt.message());
    return absl::OkStatus();
  }

  void Take(const char* name, const absl::StatusOr<std::shared_ptr<const PreparedPlan>>& prepared) {
    if (!prepared.ok()) return Note(name, prepared.status().message());
    // A fallback: the engine runs another kind of plan than was asked for.
    if ((*prepared)->plan().name() != name) Note(name, (*prepared)->plan().note);
    contestants_.push_back({.name = name, .plan = *prepared});
  }

  // A plan that is measured under another name already is not measured twice.
  void TakeUnlessThere(const char* name,
                       const absl::StatusOr<std::shared_ptr<const PreparedPlan>>& prepared) {
    if (!prepared.ok()) return Note(name, prepared.status().message());
    for (const Contestant& other : contestants_) {
      if (Runs(other, prepared)) return;
    }
    contestants_.push_back({.name = name, .plan = *prepared});
  }

  // Those that are wrong take no further part.
  void CheckAll() {
    std::vector<Contestant> right;
    for (Contestant& one : contestants_) {
      const absl::Status status = Check(one);
      if (status.ok()) right.push_back(std::move(one));
      if (!status.ok()) Fail(one.name, status);
    }
    contestants_ = std::move(right);
    if (!options_.cublaslt || !options_.time || !lt_.has_value()) return;
    const absl::Status status = CheckCublasLt();
    if (!status.ok()) Note("cublaslt", status.message());
  }

  absl::Status Check(Contestant& one) {
    Step(absl::StrCat(one.name, " run"));
    SINTER_ASSIGN_OR_RETURN(one.run, RunnableOf(measurer_, one.plan, case_.m, *data_));
    SINTER_ASSIGN_OR_RETURN(one.output, RunOnce(measurer_, one.run, data_.get()));
    return Judge(one.output, expected_, 1);
  }

  absl::Status TimeColdInTurns() {
    std::vector<Contestant*> all;
    for (Contestant& one : contestants_) all.push_back(&one);
    if (lt_run_.run.sets > 0) all.push_back(&lt_run_);
    // One that fails has no time and costs the others none.
    std::vector<absl::Status> failures(all.size());
    const auto time = [&](int i) -> absl::StatusOr<double> {
      Contestant& one = *all[static_cast<size_t>(i)];
      absl::Status& failure = failures[static_cast<size_t>(i)];
      if (!failure.ok()) return 0.0;
      Step(absl::StrCat(one.name, " cold"));
      TimingOptions timing = Timing(one.run, true, false);
      timing.replays = (timing.replays + kRounds - 1) / kRounds;
      const absl::StatusOr<double> us =
          &one == &lt_run_ ? TimeInGraph(measurer_, one.run, timing) : Time(one, timing);
      failure = us.status();
      return us.ok() ? *us : 0.0;
    };
    SINTER_ASSIGN_OR_RETURN(const std::vector<double> times,
                            TimeInTurns(static_cast<int>(all.size()), kRounds, time));
    for (size_t i = 0; i < all.size(); ++i) {
      if (failures[i].ok()) all[i]->cold_us = times[i];
      if (failures[i].ok()) continue;
      if (all[i] == &lt_run_) Note(lt_run_.name, failures[i].message());
      if (all[i] != &lt_run_) Fail(all[i]->name, failures[i]);
    }
    return absl::OkStatus();
  }

  absl::Status TimeTheRestOfCublasLt() {
    row_.cublaslt_cold_us = lt_run_.cold_us;
    if (!lt_run_.cold_us.has_value()) return absl::OkStatus();
    row_.cublaslt_mj_per_call = Energy(lt_run_.name, lt_run_.run, *lt_run_.cold_us);
    if (options_.only_cold) return absl::OkStatus();
    SINTER_ASSIGN_OR_RETURN(row_.cublaslt_hot_us,
                            TimeInGraph(measurer_, lt_run_.run, Timing(lt_run_.run, false, false)));
    return absl::OkStatus();
  }

  absl::Status TimeTheRest(Contestant& one) {
    if (!one.cold_us.has_value()) return absl::OkStatus();
    if (!options_.only_cold) {
      Step(absl::StrCat(one.name, " hot"));
      SINTER_ASSIGN_OR_RETURN(one.hot_us, Time(one, Timing(one.run, false, false)));
      Step(absl::StrCat(one.name, " pdl"));
      SINTER_ASSIGN_OR_RETURN(one.pdl_us, Time(one, Timing(one.run, true, true)));
    }
    one.mj_per_call = Energy(one.name, one.run, *one.cold_us);
    return absl::OkStatus();
  }

  // Long graphs are replayed less often: their computations average.
  TimingOptions Timing(const Runnable& run, bool cold, bool pdl) const {
    TimingOptions timing{cold, pdl, options_.replays, case_.Calls(ports_.model)};
    if (CallsOf(run, timing) > kManyCalls) timing.replays = std::min(timing.replays, kFewReplays);
    return timing;
  }

  std::optional<double> Energy(absl::string_view who, const Runnable& run, double us) {
    if (options_.energy == nullptr) return std::nullopt;
    Step(absl::StrCat(who, " energy"));
    const absl::StatusOr<double> mj =
        MilliJoulesPerCall(measurer_, *options_.energy, run, Timing(run, true, false), us);
    if (mj.ok()) return *mj;
    Note(absl::StrCat(who, " energy"), mj.status().message());
    return std::nullopt;
  }

  // The output that the replays leave must be the one that was checked.
  absl::StatusOr<double> Time(const Contestant& one, const TimingOptions& timing) {
    SINTER_RETURN_IF_ERROR(data_->Reset(false));
    SINTER_ASSIGN_OR_RETURN(const double us, TimeInGraph(measurer_, one.run, timing));
    SINTER_ASSIGN_OR_RETURN(const std::string output, data_->DownloadOutput());
    if (output == one.output) return us;
    return absl::DataLossError(absl::StrCat("another output after ", timing.cold ? "cold" : "hot",
                                            timing.pdl ? " PDL" : "", " replays"));
  }

  absl::Status Judge(const std::string& output, const Expected& expected, uint64_t seed) {
    SINTER_ASSIGN_OR_RETURN(const ErrorMeasure measure, expected.Compare(case_, output));
    if (measure.nans == 0) {  // else there is no figure
      row_.rel_error = Larger(row_.rel_error, measure.relative);
      row_.max_error = Larger(row_.max_error, measure.max_over_rms);
    }
    if (measure.Within(BoundsFor(case_.matched.sequence.element()))) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("wrong with seed ", seed, ": ", measure.ToString()));
  }

  void MeasureHost() {
    for (const Contestant& one : contestants_) {
      if (!options_.time || options_.only_cold || one.run.sets == 0) continue;
      if (!Runs(one, prepared_.best)) continue;
      Step("host time");
      const absl::StatusOr<double> us = HostUs(measurer_, one.run);
      if (us.ok()) row_.host_us = *us;
      if (!us.ok()) Fail("host time", us.status());
    }
  }

  absl::Status CheckOtherSeeds() {
    for (int seed = 2; seed <= options_.seeds; ++seed) {
      Step(absl::StrCat("seed ", seed));
      const uint64_t s = static_cast<uint64_t>(seed);
      SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<GraphData> data,
                              GraphData::MakeOfWeights(measurer_, case_.chain, case_.m, s, false));
      SINTER_ASSIGN_OR_RETURN(const Expected expected,
                              Expected::Make(case_, data->inputs(), options_.check_rows, s));
      for (const Contestant& one : contestants_) {
        SINTER_ASSIGN_OR_RETURN(const Runnable run,
                                RunnableOf(measurer_, one.plan, case_.m, *data));
        SINTER_ASSIGN_OR_RETURN(const std::string output, RunOnce(measurer_, run, data.get()));
        const absl::Status status = Judge(output, expected, s);
        if (!status.ok()) Fail(one.name, status);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckCublasLt() {
    Step("cublaslt");
    SINTER_ASSIGN_OR_RETURN(Runnable run, MakeLtFfn(ports_, *lt_, case_, *data_));
    SINTER_ASSIGN_OR_RETURN(const std::string output, RunOnce(measurer_, run, data_.get()));
    SINTER_ASSIGN_OR_RETURN(const ErrorMeasure measure, expected_.Compare(case_, output));
    row_.cublaslt_rel_error = measure.relative;
    if (!(measure.relative < kLtRelativeBound) || measure.nans > 0) {
      return absl::DataLossError(absl::StrCat("the serving form is wrong: ", measure.ToString()));
    }
    lt_run_.name = "cublaslt";
    lt_run_.run = std::move(run);
    return absl::OkStatus();
  }

  const Ports& ports_;
  Measurer* const measurer_;
  const Case& case_;
  const PreparedCase& prepared_;
  const std::optional<LtContext>& lt_;
  const MeasureOptions& options_;
  gpu_testing::Watchdog* const watchdog_;
  std::unique_ptr<GraphData> data_;
  Expected expected_;
  std::vector<Contestant> contestants_;
  Contestant lt_run_;  // without a plan; no sets unless it takes part
  Row row_;
};

}  // namespace

Row MeasureCase(const Ports& ports, const Case& c, const PreparedCase& prepared,
                const std::optional<LtContext>& lt, const MeasureOptions& options,
                gpu_testing::Watchdog* watchdog) {
  return CaseRun(ports, c, prepared, lt, options, watchdog).Run();
}

}  // namespace sinter::bench
