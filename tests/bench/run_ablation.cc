#include "tests/bench/ablation.h"
#include "tests/bench/modes.h"

namespace sinter::bench {
namespace {

constexpr int kReplays = 7;
constexpr size_t kDraws = 5;
constexpr double kForever = 1e6;

absl::Status MeasureSteps(Session* session, const Case& c) {
  const ProductSequence problem = c.matched.sequence;
  const absl::StatusOr<LegalSpace> space = LegalSpaceOf(problem, session->ports().model);
  if (!space.ok()) return space.status();
  const Options& o = session->options();
  absl::StatusOr<std::unique_ptr<ScheduleRuns>> runs = ScheduleRuns::Make(
      session->ports(), c, o.compile_threads, std::min(o.replays, kReplays), session->watchdog());
  if (!runs.ok()) return runs.status();
  const auto run = [&](const std::vector<PlacedSchedule>& schedules, const char* kind) {
    for (const SweepRow& row : (*runs)->Run(schedules, kind, kForever)) {
      std::printf("%-4s %s %-12s %s  %s %s\n", row.id.c_str(), row.layout.c_str(), kind,
                  Figure(row.measured_us).c_str(), row.schedule.c_str(), row.note.c_str());
      session->results().sweep.push_back(row);
    }
  };
  run(WithoutDsm(space->schedules), kWithoutDsm);
  run(RandomWithDsm(space->schedules, kDraws, o.seed), kRandomDsm);
  const absl::StatusOr<LegalSpace> wider =
      LegalSpaceOf(problem, session->ports().model, {.offered = Offered::kTuning});
  if (!wider.ok()) return wider.status();
  run(OfTuningAlone(wider->schedules), kTuningAlone);
  return absl::OkStatus();
}

}  // namespace

int RunAblation(Session* session) {
  MeasureOptions measuring{
      .fused = false, .only_cold = true, .replays = std::min(session->options().replays, kReplays)};
  Wanted wanted{.fused = false};
  const std::optional<LtContext> lt = session->Lt();
  Results& results = session->results();
  const bool right = session->MeasureEach(wanted, [&](const Case& c, const PreparedCase& prepared) {
    results.rows.push_back(
        MeasureCase(session->ports(), c, prepared, lt, measuring, session->watchdog()));
    const absl::Status status = MeasureSteps(session, c);
    if (!status.ok()) std::printf("%s: %s\n", c.id.c_str(), std::string(status.message()).c_str());
    return results.rows.back().correct && status.ok();
  });
  std::printf("%s", AblationText(results.rows, results.sweep).c_str());
  return right ? 0 : 1;
}

}  // namespace sinter::bench
