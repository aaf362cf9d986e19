// The modes that measure whole plans: cases and never slower.
#include "tests/bench/goals.h"
#include "tests/bench/modes.h"

namespace sinter::bench {
namespace {

constexpr int64_t kFewCheckedRows = 16;
constexpr int kFirstReplays = 7;

void PrintRow(const Row& r) {
  std::printf(
      "%-4s %s %-7s predicted %s chosen %s fused %s hot %s unfused %s pdl %s lt %s "
      "limit %s host %s rel %.1e max %.3f %s\n",
      r.id.c_str(), r.layout.c_str(), r.chosen.c_str(), Figure(r.predicted_us).c_str(),
      Figure(r.chosen_cold_us).c_str(), Figure(r.fused_cold_us).c_str(),
      Figure(r.fused_hot_us).c_str(), Figure(r.unfused_cold_us).c_str(),
      Figure(r.chosen_pdl_us).c_str(), Figure(r.cublaslt_cold_us).c_str(),
      Figure(r.limit_us).c_str(), Figure(r.host_us).c_str(), r.rel_error.value_or(-1),
      r.max_error.value_or(-1), r.correct ? "ok" : "WRONG");
  if (r.chosen_mj_per_call.has_value()) {
    std::printf("     mJ per call: chosen %s unfused %s cuBLASLt %s\n",
                Figure(r.chosen_mj_per_call).c_str(), Figure(r.unfused_mj_per_call).c_str(),
                Figure(r.cublaslt_mj_per_call).c_str());
  }
  if (r.untuned_cold_us.has_value()) {
    std::printf("     by prediction %s\n", Figure(r.untuned_cold_us).c_str());
  }
  if (r.batch_invariant_cold_us.has_value()) {
    std::printf("     batch-invariant %s\n", Figure(r.batch_invariant_cold_us).c_str());
  }
  for (const std::string& note : r.notes) std::printf("     %s\n", note.c_str());
}

MeasureOptions OptionsOf(const Options& o) {
  MeasureOptions m{.batch_invariant = o.batch_invariant,
                   .time = o.only != "check",
                   .seeds = o.seeds,
                   .check_rows = o.check_rows,
                   .replays = o.replays};
  if (o.only == "check" || o.only.empty()) return m;
  m.fused = o.only == "fused";
  m.unfused = o.only == "unfused";
  m.cublaslt = o.only == "cublaslt";
  m.chosen = false;
  return m;
}

// True when every row is right.
bool MeasureAll(Session* session, const MeasureOptions& measuring, const Wanted& wanted) {
  const bool with_lt = measuring.cublaslt && measuring.time;
  const std::optional<LtContext> lt = with_lt ? session->Lt() : std::nullopt;
  return session->MeasureEach(wanted, [&](const Case& c, const PreparedCase& prepared) {
    std::vector<Row>& rows = session->results().rows;
    rows.push_back(MeasureCase(session->ports(), c, prepared, lt, measuring, session->watchdog()));
    PrintRow(rows.back());
    return rows.back().correct;
  });
}

}  // namespace

std::string Figure(const std::optional<double>& value) {
  char text[24] = "      -";
  if (value.has_value()) std::snprintf(text, sizeof text, "%7.2f", *value);
  return text;
}

int RunCases(Session* session) {
  const Options& o = session->options();
  MeasureOptions measuring = OptionsOf(o);
  std::unique_ptr<EnergyMeter> meter;
  if (o.energy && measuring.time) {
    absl::StatusOr<std::unique_ptr<EnergyMeter>> opened =
        EnergyMeter::Open(session->config(), o.device);
    if (opened.ok()) meter = *std::move(opened);
    if (!opened.ok()) std::printf("energy: %s\n", std::string(opened.status().message()).c_str());
    measuring.energy = meter.get();
  }
  const bool right = MeasureAll(session, measuring, {.batch_invariant = o.batch_invariant});
  const Results& results = session->results();
  std::printf("%s%s%s", BatchText(results.rows).c_str(), BatchInvariantText(results.rows).c_str(),
              Summary(results).c_str());
  return right ? 0 : 1;
}

int RunNeverSlower(Session* session) {
  MeasureOptions measuring{.fused = false,
                           .only_cold = true,
                           .check_rows = kFewCheckedRows,
                           .replays = std::min(session->options().replays, kFirstReplays)};
  const bool right = MeasureAll(session, measuring, {.fused = false});
  std::printf("%s", NeverSlowerText(session->results().rows).c_str());
  return right ? 0 : 1;
}

}  // namespace sinter::bench
