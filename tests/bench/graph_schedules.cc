#include "tests/bench/graph_schedules.h"

#include "src/reference/rows.h"
#include "src/stitch/search/stitch_search.h"
#include "tests/bench/measure_graph.h"
#include "tests/gpu/plan_build.h"
#include "tests/gpu/stitch_runs.h"

namespace sinter::bench {
namespace {

constexpr double kStepSeconds = 120;

SweepRow RowOf(const GraphCase& c, int rank, const RankedStitch& ranked) {
  return SweepRow{
      .id = c.id,
      .kind = "stitch",
      .rank = rank,
      .schedule = absl::StrCat("owner ", ranked.schedule.owner, " ", ranked.schedule.ToString()),
      .bound = ranked.prediction.bound,
      .predicted_us = {{"total", ranked.prediction.total_us},
                       {"hbm", ranked.prediction.hbm_us},
                       {"l2", ranked.prediction.l2_us},
                       {"fixed", ranked.prediction.fixed_us}}};
}

// One graph's data, and every schedule on it.
class Trials {
 public:
  Trials(const Ports& ports, const GraphCase& c, const GraphScheduleOptions& options)
      : ports_(ports), case_(c), options_(options) {}

  absl::Status Make() {
    const int64_t sets = GraphSets(case_, 1);
    SINTER_ASSIGN_OR_RETURN(data_,
                            GraphData::Make(ports_.measurer.get(), case_.chain, case_.m, 1, sets));
    SINTER_ASSIGN_OR_RETURN(expected_,
                            GraphExpected::Make(case_, data_->inputs(), 1, options_.full_elements));
    return absl::OkStatus();
  }

  absl::StatusOr<LoadedPlanPtr> Build(const StitchSchedule& schedule) const {
    SINTER_ASSIGN_OR_RETURN(const Plan plan,
                            gpu_testing::OneStitchPlan(case_.chain, BucketOf(case_.m), schedule));
    return gpu_testing::BuildPlan(ports_, std::make_shared<const Chain>(case_.chain), plan);
  }

  absl::Status Measure(const LoadedPlanPtr& plan, SweepRow* row) {
    std::vector<std::vector<DevicePtr>> sets;
    for (size_t i = 0; i < data_->sets(); ++i) sets.push_back(data_->CallerSet(i, false));
    SINTER_ASSIGN_OR_RETURN(const Runnable run,
                            gpu_testing::RunnableOfGraph(ports_, case_, plan, sets));
    SINTER_RETURN_IF_ERROR(data_->Reset(false));
    SINTER_RETURN_IF_ERROR(ports_.measurer->RunAndWait(
        [&](StreamHandle stream) { return run.enqueue(stream, 0, false); }));
    if (!expected_.NeedsOutputs()) {
      SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> outputs, data_->Download(false));
      SINTER_ASSIGN_OR_RETURN(const GraphErrors errors, expected_.Judge(case_, outputs));
      row->rel_error = errors.relative;
    }
    const TimingOptions timing{true, false, options_.replays, case_.Calls(ports_.model)};
    SINTER_ASSIGN_OR_RETURN(row->measured_us, TimeInGraph(ports_.measurer.get(), run, timing));
    return absl::OkStatus();
  }

 private:
  const Ports& ports_;
  const GraphCase& case_;
  const GraphScheduleOptions& options_;
  std::unique_ptr<GraphData> data_;
  GraphExpected expected_;
};

}  // namespace

absl::StatusOr<std::vector<SweepRow>> MeasureSchedules(const Ports& ports, const GraphCase& c,
                                                       const GraphScheduleOptions& options,
                                                       gpu_testing::Watchdog* watchdog) {
  SINTER_ASSIGN_OR_RETURN(
      const std::vector<RankedStitch> best,
      SearchStitch(c.chain, BucketOf(c.m), ports.model,
                   {.top_k = options.count, .tight_registers = true, .kinds_first = true}));
  watchdog->Begin(absl::StrCat(c.id, " building"), kStepSeconds);
  Trials trials(ports, c, options);
  SINTER_RETURN_IF_ERROR(trials.Make());
  std::vector<absl::StatusOr<LoadedPlanPtr>> plans(best.size(), absl::UnknownError("not built"));
  reference::ParallelFor(options.threads, static_cast<int64_t>(best.size()), 1,
                         [&](int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i) {
                             plans[i] = trials.Build(best[static_cast<size_t>(i)].schedule);
                           }
                         });
  std::vector<SweepRow> rows;
  for (size_t i = 0; i < best.size(); ++i) {
    rows.push_back(RowOf(c, static_cast<int>(i) + 1, best[i]));
    watchdog->Begin(absl::StrCat(c.id, " ", rows.back().schedule), kStepSeconds);
    absl::Status status = plans[i].status();
    if (status.ok()) status = trials.Measure(*plans[i], &rows.back());
    if (!status.ok()) rows.back().note = std::string(status.message()).substr(0, 200);
  }
  watchdog->End();
  return rows;
}

}  // namespace sinter::bench
