#include "src/product/dataflow/dataflow.h"
#include "tests/bench/modes.h"
#include "tests/bench/sweep.h"

namespace sinter::bench {
namespace {

void PrintSweepRow(const SweepRow& r) {
  std::printf("%-4s %s %-6s %3d predicted %7.2f (%s) measured %s  %s %s\n", r.id.c_str(),
              r.layout.c_str(), r.kind.c_str(), r.rank, r.predicted_us.at("total"), r.bound.c_str(),
              Figure(r.measured_us).c_str(), r.schedule.c_str(), r.note.c_str());
}

}  // namespace

bool KeepRows(Session* session, const std::vector<SweepRow>& rows, void (*print)(const SweepRow&)) {
  for (const SweepRow& row : rows) {
    print(row);
    session->results().sweep.push_back(row);
  }
  return session->Keep();
}

int RunSweep(Session* session) {
  const Options& o = session->options();
  SweepOptions sweep;
  sweep.top = o.sweep;
  sweep.threads = o.compile_threads;
  sweep.replays = std::min(o.replays, sweep.replays);
  for (const DataflowRow* row : AllDataflows()) {
    if (o.only == row->name) sweep.dataflow = row->dataflow;
  }
  sweep.fused = o.only.empty() || o.only == "fused" || sweep.dataflow != Dataflow::kNone;
  sweep.unfused = o.only.empty() || o.only == "unfused" || o.only == "kinds";
  sweep.product_kinds = o.only == "kinds";
  const absl::StatusOr<std::vector<Case>> parts = session->Parts();
  if (!parts.ok()) {
    std::printf("%s\n", std::string(parts.status().message()).c_str());
    return 1;
  }
  for (const Case& c : *parts) {
    const absl::StatusOr<std::vector<SweepRow>> rows =
        SweepCase(session->ports(), c, sweep, session->watchdog());
    if (!rows.ok()) {
      std::printf("%s: %s\n", c.id.c_str(), std::string(rows.status().message()).c_str());
      return 1;
    }
    if (!KeepRows(session, *rows, PrintSweepRow)) return 1;
  }
  std::printf("%s", CorrelationText(session->results().sweep).c_str());
  return 0;
}

}  // namespace sinter::bench
