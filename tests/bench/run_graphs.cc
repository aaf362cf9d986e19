// The mode that measures graphs of memory-intensive ops.
#include "src/reference/rows.h"
#include "tests/bench/goals.h"
#include "tests/bench/measure_graph.h"
#include "tests/bench/modes.h"

namespace sinter::bench {
namespace {

constexpr double kPrepareSeconds = 480;

// All cases on the compile threads.
std::vector<PreparedGraph> PrepareGraphs(Session* session, const std::vector<GraphCase>& cases) {
  std::vector<std::optional<PreparedGraph>> slots(cases.size());
  const auto start = std::chrono::steady_clock::now();
  const bool measures = session->options().measure > 0;
  session->watchdog()->Begin(
      "preparing",
      kPrepareSeconds + (measures ? kMeasureSeconds * static_cast<double>(cases.size()) : 0));
  reference::ParallelFor(session->options().compile_threads, static_cast<int64_t>(cases.size()), 1,
                         [&](int64_t begin, int64_t end) {
                           for (int64_t i = begin; i < end; ++i) {
                             slots[i] = PrepareGraph(session->engine(), session->untuned(),
                                                     session->ChosenOptions(), cases[i],
                                                     session->options().only != "fused");
                           }
                         });
  session->watchdog()->End();
  std::vector<PreparedGraph> prepared;
  for (std::optional<PreparedGraph>& slot : slots) prepared.push_back(*std::move(slot));
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  std::printf("prepared %zu graphs in %.1f s\n", cases.size(), spent.count());
  return prepared;
}

void PrintGraph(const GraphRow& r) {
  std::printf(
      "%-28s ops %4.0f %-7s kernels %3.0f of %3.0f predicted %s of %s chosen %s unfused %s limit "
      "%s host "
      "%s rel %.1e max %.3f %s: %s\n",
      r.id.c_str(), r.ops, r.chosen.c_str(), r.kernels, r.unfused_kernels,
      Figure(r.predicted_us).c_str(), Figure(r.unfused_predicted_us).c_str(),
      Figure(r.chosen_us).c_str(), Figure(r.unfused_us).c_str(), Figure(r.limit_us).c_str(),
      Figure(r.host_us).c_str(), r.rel_error.value_or(-1), r.max_error.value_or(-1),
      r.checked.c_str(), r.correct ? "ok" : "WRONG");
  if (r.untuned_us.has_value())
    std::printf("     by prediction %s\n", Figure(r.untuned_us).c_str());
  for (const std::string& note : r.notes) std::printf("     %s\n", note.c_str());
}

}  // namespace

absl::StatusOr<std::vector<GraphCase>> GraphCasesOf(const Options& o) {
  if (o.random_graphs > 0 && o.graphs.empty()) {
    return Selected(RandomGraphCases(o.random_graphs, o.random_elements, o.seed), o.ids);
  }
  return LoadGraphCases(o.graphs, o.ids);
}

int RunGraphs(Session* session) {
  const Options& o = session->options();
  const absl::StatusOr<std::vector<GraphCase>> cases = GraphCasesOf(o);
  if (!cases.ok()) {
    std::fprintf(stderr, "sinter_bench: %s\n", std::string(cases.status().message()).c_str());
    return 2;
  }
  GraphOptions options{.time = o.only != "check", .seeds = o.seeds, .replays = o.replays};
  const std::vector<PreparedGraph> prepared = PrepareGraphs(session, *cases);
  bool right = true;
  for (size_t i = 0; i < cases->size(); ++i) {
    std::vector<GraphRow>& rows = session->results().graphs;
    rows.push_back(MeasureGraph(session->ports().measurer.get(), session->ports().model,
                                (*cases)[i], prepared[i], options, session->watchdog()));
    PrintGraph(rows.back());
    right = right && rows.back().correct;
    if (!session->Keep()) return 1;
  }
  std::printf("%s", GraphsText(session->results().graphs).c_str());
  return right ? 0 : 1;
}

}  // namespace sinter::bench
