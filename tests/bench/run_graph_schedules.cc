#include "tests/bench/graph_schedules.h"
#include "tests/bench/modes.h"
#include "tests/bench/sweep.h"

namespace sinter::bench {
namespace {

void Print(const SweepRow& r) {
  std::printf("%-18s %3d predicted %7.2f (fixed %6.2f hbm %6.2f l2 %5.2f %s) measured %s  %s %s\n",
              r.id.c_str(), r.rank, r.predicted_us.at("total"), r.predicted_us.at("fixed"),
              r.predicted_us.at("hbm"), r.predicted_us.at("l2"), r.bound.c_str(),
              Figure(r.measured_us).c_str(), r.schedule.c_str(), r.note.c_str());
}

}  // namespace

int RunGraphSchedules(Session* session) {
  const Options& o = session->options();
  const absl::StatusOr<std::vector<GraphCase>> cases = GraphCasesOf(o);
  if (!cases.ok()) {
    std::fprintf(stderr, "sinter_bench: %s\n", std::string(cases.status().message()).c_str());
    return 2;
  }
  GraphScheduleOptions options{.count = o.graph_schedules, .threads = o.compile_threads};
  options.replays = std::min(o.replays, options.replays);
  for (const GraphCase& c : *cases) {
    const absl::StatusOr<std::vector<SweepRow>> rows =
        MeasureSchedules(session->ports(), c, options, session->watchdog());
    if (!rows.ok()) {  // no one kernel takes some graphs
      std::printf("%s: %s\n", c.id.c_str(), std::string(rows.status().message()).c_str());
      continue;
    }
    if (!KeepRows(session, *rows, Print)) return 1;
  }
  std::printf("%s", CorrelationText(session->results().sweep).c_str());
  return 0;
}

}  // namespace sinter::bench
