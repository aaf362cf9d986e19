#include "tests/bench/sweep.h"

#include "src/engine/tune.h"
#include "src/reference/rows.h"
#include "tests/bench/case_parts.h"
#include "tests/bench/runnable.h"
#include "tests/bench/schedule_runs.h"
#include "tests/gpu/plan_build.h"
#include "tests/support/plan_of_products.h"
#include "tests/support/sequences.h"

namespace sinter::bench {
namespace {

constexpr double kSweepSeconds = 60;

// A plan of the sweep and the kernels of it that are timed alone.
struct Trial {
  Plan plan;
  std::vector<SweepRow> rows;  // one for the whole plan, or one for each kernel
  LoadedPlanPtr loaded;
  absl::Status status;
};

// The first of the search's order, or of a dataflow's.
absl::StatusOr<std::vector<RankedSchedule>> FusedRanking(const ProductSequence& problem,
                                                         const DeviceModel& model, int top,
                                                         Dataflow dataflow) {
  SearchOptions search{.top_k = top};
  if (dataflow == Dataflow::kNone) {
    SINTER_ASSIGN_OR_RETURN(SearchResult found, SearchSchedules(problem, model, search));
    return std::move(found.ranked);
  }
  search.offered = Offered::kTuning;
  SINTER_ASSIGN_OR_RETURN(const LegalSpace space, LegalSpaceOf(problem, model, search));
  std::vector<RankedSchedule> first;
  for (const PlacedSchedule& placed : space.schedules) {
    if (first.size() == static_cast<size_t>(top)) break;
    if (placed.ranked.schedule.dataflow == dataflow) first.push_back(placed.ranked);
  }
  return first;
}

absl::Status AddFused(const Case& c, const ProductSequence& problem, const DeviceModel& model,
                      const SweepOptions& options, std::vector<Trial>* trials) {
  SINTER_ASSIGN_OR_RETURN(const std::vector<RankedSchedule> ranked,
                          FusedRanking(problem, model, options.top, options.dataflow));
  for (size_t i = 0; i < ranked.size(); ++i) {
    Trial trial{.plan = PlanOf(c, ranked[i])};
    trial.rows.push_back(RowOf(c, "chain", static_cast<int>(i) + 1, ranked[i]));
    trials->push_back(std::move(trial));
  }
  return absl::OkStatus();
}

// The first of the search's order, or of each kind of schedule in it.
absl::StatusOr<std::vector<RankedSchedule>> ProductRanking(const ProductSequence& problem,
                                                           const DeviceModel& model,
                                                           const SweepOptions& options) {
  std::vector<RankedSchedule> first;
  SINTER_ASSIGN_OR_RETURN(const LegalSpace space, LegalSpaceOf(problem, model));
  std::map<std::pair<bool, Share>, int> kinds;
  int all = 0;
  for (const PlacedSchedule& placed : space.schedules) {
    const Schedule& s = placed.ranked.schedule;
    int& count = options.product_kinds ? kinds[{s.swapped, s.share}] : all;
    if (count++ < options.top) first.push_back(placed.ranked);
  }
  return first;
}

// Rank i of the first product goes with rank i of the second; a shorter ranking ends with its last.
absl::Status AddUnfused(const Case& c, const ProductSequence& problem, const DeviceModel& model,
                        const SweepOptions& options, std::vector<Trial>* trials) {
  SINTER_ASSIGN_OR_RETURN(const std::vector<RankedSchedule> one,
                          ProductRanking(FirstOf(problem), model, options));
  std::vector<RankedSchedule> two;
  if (problem.size() == 2) {
    SINTER_ASSIGN_OR_RETURN(two, ProductRanking(SecondOf(problem), model, options));
  }
  for (size_t i = 0; i < std::max(one.size(), two.size()); ++i) {
    const RankedSchedule& first = one[std::min(i, one.size() - 1)];
    const RankedSchedule* second = two.empty() ? nullptr : &two[std::min(i, two.size() - 1)];
    Trial trial{.plan = second == nullptr
                            ? PlanOf(c, first)
                            : MakePlan(c.chain, c.matched, {{0, 1}, {1, 1}}, {first, *second})};
    trial.rows.push_back(RowOf(c, "first", static_cast<int>(i) + 1, first));
    if (second != nullptr) {
      trial.rows.push_back(RowOf(c, "second", static_cast<int>(i) + 1, *second));
    }
    trials->push_back(std::move(trial));
  }
  return absl::OkStatus();
}

absl::Status MeasureTrial(const Ports& ports, const Case& c, const Expected& expected,
                          const SweepOptions& options, GraphData* data, Trial* trial) {
  Measurer* measurer = ports.measurer.get();
  SINTER_ASSIGN_OR_RETURN(const Runnable whole,
                          RunnableOf(measurer, ports.loader.get(), trial->loaded, c.m, *data));
  SINTER_ASSIGN_OR_RETURN(const std::string output, RunOnce(measurer, whole, data));
  SINTER_ASSIGN_OR_RETURN(const ErrorMeasure error, expected.Compare(c, output));
  for (SweepRow& row : trial->rows) row.rel_error = error.relative;
  if (!error.Within(expected.bounds())) {
    return absl::DataLossError(absl::StrCat("wrong: ", error.ToString()));
  }
  const TimingOptions timing{true, false, options.replays, c.Calls(ports.model)};
  if (trial->rows[0].kind == "chain") {
    SINTER_ASSIGN_OR_RETURN(trial->rows[0].measured_us, TimeInGraph(measurer, whole, timing));
    return absl::OkStatus();
  }
  for (size_t i = 0; i < trial->rows.size(); ++i) {
    const int kernel = c.plan == nullptr ? static_cast<int>(i) : c.kernel;
    SINTER_ASSIGN_OR_RETURN(const Runnable one, RunnableOf(measurer, ports.loader.get(),
                                                           trial->loaded, c.m, *data, kernel));
    SINTER_ASSIGN_OR_RETURN(trial->rows[i].measured_us, TimeInGraph(measurer, one, timing));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SweepRow>> SweepCase(const Ports& ports, const Case& c,
                                                const SweepOptions& options,
                                                gpu_testing::Watchdog* watchdog) {
  const ProductSequence problem = c.matched.sequence;
  std::vector<Trial> trials;
  if (options.fused && problem.size() == 2) {
    SINTER_RETURN_IF_ERROR(AddFused(c, problem, ports.model, options, &trials));
  }
  if (options.unfused) {
    SINTER_RETURN_IF_ERROR(AddUnfused(c, problem, ports.model, options, &trials));
  }
  const auto chain = std::make_shared<const Chain>(c.chain);
  watchdog->Begin(absl::StrCat(c.id, " compile"), 4 * kSweepSeconds);
  reference::ParallelFor(
      options.threads, static_cast<int64_t>(trials.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          Trial& trial = trials[static_cast<size_t>(i)];
          absl::StatusOr<LoadedPlanPtr> built = gpu_testing::BuildPlan(ports, chain, trial.plan);
          trial.status = built.status();
          if (built.ok()) trial.loaded = *std::move(built);
        }
      });
  watchdog->Begin(absl::StrCat(c.id, " data and reference"), kSweepSeconds);
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<GraphData> data,
                          GraphData::MakeOfWeights(ports.measurer.get(), c.chain, c.m, 1, true));
  SINTER_ASSIGN_OR_RETURN(const Expected expected, Expected::Make(c, data->inputs(), 0, 1));
  std::vector<SweepRow> rows;
  for (Trial& trial : trials) {
    watchdog->Begin(absl::StrCat(c.id, " ", trial.rows[0].schedule), kSweepSeconds);
    if (trial.status.ok()) {
      trial.status = MeasureTrial(ports, c, expected, options, data.get(), &trial);
    }
    for (SweepRow& row : trial.rows) {
      if (!trial.status.ok()) row.note = std::string(trial.status.message());
      rows.push_back(std::move(row));
    }
    trial.loaded = nullptr;
  }
  watchdog->End();
  return rows;
}

std::string CorrelationText(const std::vector<SweepRow>& rows) {
  struct Series {
    std::vector<double> predicted, measured;
  };
  std::map<std::tuple<std::string, std::string, std::string>, Series> groups;
  Series all;
  for (const SweepRow& row : rows) {
    if (!row.measured_us.has_value()) continue;
    Series& group = groups[{row.id, row.layout, row.kind}];
    for (Series* series : {&group, &all}) {
      series->predicted.push_back(row.predicted_us.at("total"));
      series->measured.push_back(*row.measured_us);
    }
  }
  std::string text = "Spearman's rank correlation of predicted and measured times\n";
  double sum = 0;
  for (const auto& [key, series] : groups) {
    const double correlation = RankCorrelation(series.predicted, series.measured);
    sum += correlation;
    absl::StrAppendFormat(&text, "  %-5s %s %-6s %5.2f of %d\n", std::get<0>(key), std::get<1>(key),
                          std::get<2>(key), correlation, series.predicted.size());
  }
  if (groups.empty()) return text + "  nothing was measured\n";
  absl::StrAppendFormat(&text, "mean of %d rankings %.2f; over all %d schedules %.2f\n",
                        groups.size(), sum / static_cast<double>(groups.size()),
                        all.predicted.size(), RankCorrelation(all.predicted, all.measured));
  return text;
}

}  // namespace sinter::bench
