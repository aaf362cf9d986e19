// The modes that measure the search: brute force and rank.
#include "tests/bench/modes.h"
#include "tests/bench/schedule_runs.h"
#include "tests/bench/search_quality.h"
#include "tests/bench/statistics.h"

namespace sinter::bench {
namespace {

constexpr double kNoBudget = 1e6;
constexpr int kSearchReplays = 7;

using Schedules = std::vector<PlacedSchedule>;

class Seconds {
 public:
  double Get() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// One problem's space, its measuring, and the results.
class Study {
 public:
  static absl::StatusOr<std::unique_ptr<Study>> Make(Session* session, const Case& c,
                                                     const char* kind) {
    std::unique_ptr<Study> study(new Study(session));
    const ProductSequence problem = c.matched.sequence;
    absl::StatusOr<LegalSpace> space = LegalSpaceOf(problem, session->ports().model);
    if (!space.ok()) return space.status();
    study->space_ = *std::move(space);
    const absl::StatusOr<SearchResult> found =
        SearchSchedules(problem, session->ports().model, {.top_k = kTop});
    if (!found.ok()) return found.status();
    study->row_.id = c.id;
    study->row_.layout = std::string(NameOf(c.matched.sequence.layout()));
    study->row_.kind = kind;
    study->row_.considered = static_cast<double>(found->considered);
    study->row_.legal = static_cast<double>(study->space_.schedules.size());
    study->row_.search_seconds = found->search_us / 1e6;
    const Options& o = session->options();
    absl::StatusOr<std::unique_ptr<ScheduleRuns>> runs =
        ScheduleRuns::Make(session->ports(), c, o.compile_threads,
                           std::min(o.replays, kSearchReplays), session->watchdog());
    if (!runs.ok()) return runs.status();
    study->runs_ = *std::move(runs);
    return study;
  }

  const Schedules& space() const { return space_.schedules; }

  // The predicted top, timed as a part of the search.
  void RunTop() {
    const size_t count = std::min(space().size(), static_cast<size_t>(kTop));
    const Seconds seconds;
    const Schedules top(space().begin(), space().begin() + static_cast<int64_t>(count));
    top_ = runs_->Run(top, "top", kNoBudget);
    row_.search_seconds += seconds.Get();
    row_.all_seconds += seconds.Get();
  }
  void RunSample(const Schedules& sample, double limit) {
    const Seconds seconds;
    sample_ = runs_->Run(sample, row_.kind, limit);
    row_.all_seconds += seconds.Get();
  }
  std::optional<double> SampleBest() const { return FastestOf(sample_); }

  // `with_top`: the top stands for the space as the sample does.
  const SearchRow& Finish(bool with_top) {
    std::vector<SweepRow> judged = sample_;
    if (with_top) judged.insert(judged.end(), top_.begin(), top_.end());
    Judge(judged, top_, &row_);
    Keep(top_);
    Keep(sample_);
    session_->results().search.push_back(row_);
    return session_->results().search.back();
  }

 private:
  explicit Study(Session* session) : session_(session) {}

  void Keep(const std::vector<SweepRow>& rows) {
    for (const SweepRow& row : rows) {
      if (!row.note.empty()) {
        std::printf("  %s rank %d %s: %s\n", row.id.c_str(), row.rank, row.schedule.c_str(),
                    row.note.c_str());
      }
      session_->results().sweep.push_back(row);
    }
  }

  Session* const session_;
  LegalSpace space_;
  std::unique_ptr<ScheduleRuns> runs_;
  std::vector<SweepRow> top_, sample_;
  SearchRow row_;
};

int Complain(const Case& c, const absl::Status& status) {
  std::printf("%s: %s\n", c.id.c_str(), std::string(status.message()).c_str());
  return 1;
}

int BruteForce(Session* session, const Case& c) {
  absl::StatusOr<std::unique_ptr<Study>> made = Study::Make(session, c, "brute-force");
  if (!made.ok()) return Complain(c, made.status());
  Study& study = **made;
  study.RunTop();
  Schedules rest;
  const size_t begin = std::min(study.space().size(), static_cast<size_t>(kTop));
  // At random, so that what a limit of time leaves out is left out at random.
  for (size_t i : Shuffled(study.space().size() - begin, session->options().seed)) {
    rest.push_back(study.space()[begin + i]);
  }
  study.RunSample(rest, session->options().seconds);
  const SearchRow& row = study.Finish(true);
  std::printf("%s", BruteForceText(row).c_str());
  return row.failed > 0 ? 1 : 0;
}

int Rank(Session* session, const Case& c) {
  absl::StatusOr<std::unique_ptr<Study>> made = Study::Make(session, c, "rank");
  if (!made.ok()) return Complain(c, made.status());
  Study& study = **made;
  study.RunTop();
  const Options& o = session->options();
  std::vector<double> times;
  for (const PlacedSchedule& s : study.space()) times.push_back(s.ranked.prediction.total_us);
  Schedules sample;
  const Strata strata = o.strata == "count" ? Strata::kCount : Strata::kTime;
  for (size_t i : Stratified(times, static_cast<size_t>(o.rank), strata, o.seed)) {
    sample.push_back(study.space()[i]);
  }
  study.RunSample(sample, kNoBudget);
  const SearchRow& row = study.Finish(false);
  std::printf("%s", RankText(row, study.SampleBest()).c_str());
  return row.failed > 0 ? 1 : 0;
}

int RunEach(Session* session, int (*run)(Session*, const Case&)) {
  int code = 0;
  const absl::StatusOr<std::vector<Case>> parts = session->Parts();
  if (!parts.ok()) {
    std::printf("%s\n", std::string(parts.status().message()).c_str());
    return 1;
  }
  for (const Case& c : *parts) {
    code = std::max(code, run(session, c));
    if (!session->Keep()) return 1;
  }
  return code;
}

}  // namespace

int RunBruteForce(Session* session) {
  const int code = RunEach(session, BruteForce);
  std::printf("%s", SearchTimesText(session->results().search).c_str());
  return code;
}

int RunRank(Session* session) {
  const int code = RunEach(session, Rank);
  double sum = 0;
  const std::vector<SearchRow>& rows = session->results().search;
  for (const SearchRow& row : rows) sum += row.spearman.value_or(0);
  if (!rows.empty()) {
    std::printf("mean Spearman of %zu problems %.3f\n", rows.size(),
                sum / static_cast<double>(rows.size()));
  }
  return code;
}

}  // namespace sinter::bench
