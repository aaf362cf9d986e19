#include "tests/bench/schedule_runs.h"

#include "src/product/search/space.h"
#include "tests/bench/case_parts.h"
#include "tests/bench/runnable.h"
#include "tests/gpu/plan_build.h"

namespace sinter::bench {
namespace {

constexpr double kScheduleSeconds = 60;
constexpr int kScheduleCalls = 2048, kScheduleReplays = 3;

bool Before(const PlacedSchedule& a, const PlacedSchedule& b) {
  const double x = a.ranked.prediction.total_us, y = b.ranked.prediction.total_us;
  if (x != y) return x < y;
  return a.ranked.schedule.Canonical() < b.ranked.schedule.Canonical();
}

}  // namespace

absl::StatusOr<LegalSpace> LegalSpaceOf(const ProductSequence& problem, const DeviceModel& model,
                                        const SearchOptions& options) {
  SINTER_RETURN_IF_ERROR(CheckSequence(problem));
  LegalSpace space;
  std::vector<PlacedSchedule>& all = space.schedules;
  EnumerateSpace(problem, model, options, [&](const Schedule& s) {
    ++space.considered;
    if (!CheckSchedule(problem, s, model).ok()) return;
    all.push_back({{s, Predict(problem, s, model)}, 0});
  });
  std::sort(all.begin(), all.end(), Before);
  const auto same = [](const PlacedSchedule& a, const PlacedSchedule& b) {
    return a.ranked.schedule == b.ranked.schedule;
  };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
  for (size_t i = 0; i < all.size(); ++i) all[i].rank = static_cast<int>(i) + 1;
  return space;
}

SweepRow RowOf(const Case& c, const std::string& kind, int rank, const RankedSchedule& ranked) {
  SweepRow row{.id = c.id,
               .layout = std::string(NameOf(c.matched.sequence.layout())),
               .kind = kind,
               .rank = rank,
               .schedule = ranked.schedule.ToString()};
  const Prediction& p = ranked.prediction;
  row.bound = p.bound;
  row.predicted_us = {{"total", p.total_us},   {"hbm", p.hbm_us},       {"l2", p.l2_us},
                      {"intake", p.intake_us}, {"shared", p.shared_us}, {"dsm", p.dsm_us},
                      {"tensor", p.tensor_us}, {"fixed", p.fixed_us}};
  return row;
}

struct ScheduleRuns::Built {
  size_t index = 0;
  absl::StatusOr<LoadedPlanPtr> plan;
};

// Hands what was built to the measuring thread; builders wait while it holds `room`. Thread-safe.
class ScheduleRuns::Queue {
 public:
  Queue(size_t room, int builders) : room_(room), builders_(builders) {}

  void Put(Built built) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return ready_.size() < room_; });
    ready_.push_back(std::move(built));
    changed_.notify_all();
  }
  void BuilderEnds() {
    std::lock_guard<std::mutex> lock(mutex_);
    --builders_;
    changed_.notify_all();
  }
  // False when all builders have ended and nothing is left.
  bool Take(Built* built) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty() || builders_ == 0; });
    if (ready_.empty()) return false;
    *built = std::move(ready_.front());
    ready_.pop_front();
    changed_.notify_all();
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Built> ready_;
  const size_t room_;
  int builders_;
};

absl::StatusOr<std::unique_ptr<ScheduleRuns>> ScheduleRuns::Make(const Ports& ports, const Case& c,
                                                                 int threads, int replays,
                                                                 gpu_testing::Watchdog* watchdog) {
  std::unique_ptr<ScheduleRuns> runs(new ScheduleRuns(ports, c, threads, replays, watchdog));
  runs->problem_ = c.matched.sequence;
  runs->chain_ = std::make_shared<const Chain>(c.chain);
  watchdog->Begin(absl::StrCat(c.id, " data and reference"), kScheduleSeconds);
  SINTER_ASSIGN_OR_RETURN(runs->data_,
                          GraphData::MakeOfWeights(ports.measurer.get(), c.chain, c.m, 1, true));
  SINTER_ASSIGN_OR_RETURN(runs->expected_, Expected::Make(c, runs->data_->inputs(), 0, 1));
  watchdog->End();
  return runs;
}

void ScheduleRuns::BuildAll(const std::vector<PlacedSchedule>& schedules, double seconds,
                            Queue* queue) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::atomic<size_t> next{0};
  std::vector<std::thread> builders;
  for (int t = 0; t < threads_; ++t) {
    builders.emplace_back([&] {
      for (size_t i = next++; i < schedules.size(); i = next++) {
        if (std::chrono::steady_clock::now() > end) break;
        queue->Put({i, gpu_testing::BuildPlan(ports_, chain_, PlanOf(case_, schedules[i].ranked))});
      }
      queue->BuilderEnds();
    });
  }
  for (std::thread& builder : builders) builder.join();
}

absl::Status ScheduleRuns::Measure(const Built& built, SweepRow* row) {
  Measurer* measurer = ports_.measurer.get();
  SINTER_ASSIGN_OR_RETURN(const Runnable run,
                          RunnableOf(measurer, ports_.loader.get(), *built.plan, case_.m, *data_));
  SINTER_ASSIGN_OR_RETURN(const std::string output, RunOnce(measurer, run, data_.get()));
  SINTER_ASSIGN_OR_RETURN(const ErrorMeasure error, expected_.Compare(case_, output));
  row->rel_error = error.relative;
  if (!error.Within(expected_.bounds())) {
    return absl::DataLossError(absl::StrCat("wrong: ", error.ToString()));
  }
  SINTER_ASSIGN_OR_RETURN(
      const Runnable timed,
      RunnableOf(measurer, ports_.loader.get(), *built.plan, case_.m, *data_, case_.kernel));
  TimingOptions timing{true, false, replays_, case_.Calls(ports_.model)};
  if (CallsOf(timed, timing) > kScheduleCalls) {
    timing.replays = std::min(replays_, kScheduleReplays);
  }
  SINTER_ASSIGN_OR_RETURN(row->measured_us, TimeInGraph(measurer, timed, timing));
  return absl::OkStatus();
}

std::vector<SweepRow> ScheduleRuns::Run(const std::vector<PlacedSchedule>& schedules,
                                        const std::string& kind, double seconds) {
  Queue queue(static_cast<size_t>(2 * threads_), threads_);
  std::thread building([&] { BuildAll(schedules, seconds, &queue); });
  std::vector<SweepRow> rows;
  Built built{0, absl::UnknownError("")};
  while (queue.Take(&built)) {
    const PlacedSchedule& placed = schedules[built.index];
    SweepRow row = RowOf(case_, kind, placed.rank, placed.ranked);
    watchdog_->Begin(absl::StrCat(case_.id, " ", row.schedule), kScheduleSeconds);
    if (!built.plan.ok()) {
      row.note = absl::StrCat("build: ", built.plan.status().message());
    } else if (const absl::Status status = Measure(built, &row); !status.ok()) {
      row.note = absl::StrCat("run: ", status.message());
    }
    built.plan = absl::UnknownError("");
    watchdog_->End();
    rows.push_back(std::move(row));
  }
  building.join();
  return rows;
}

}  // namespace sinter::bench
