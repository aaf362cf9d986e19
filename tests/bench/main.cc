// sinter_bench: problem lists in, one JSON file of measurements out. README.md has the protocol.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "src/reference/parallel.h"
#include "tests/bench/markdown.h"
#include "tests/bench/measure.h"
#include "tests/bench/sweep.h"

namespace sinter::bench {
namespace {

constexpr int kSkipped = 77;

struct Options {
  std::vector<std::string> problems = {"tests/bench/problems/gemm_chains.txt",
                                       "tests/bench/problems/gated_ffn.txt"};
  std::vector<std::string> ids;
  std::string layout = "oi", only, out, sweep_out, markdown, cublaslt;
  std::string peers = "tests/bench/peers.txt";
  int device = 0, seeds = 1, sweep = 0, replays = 15;
  int64_t check_rows = 0;
  int compile_threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  bool cache = false;
};

void AddOptions(CLI::App& app, Options& o) {
  app.add_option("--problems,--file", o.problems, "problem lists")->delimiter(',');
  app.add_option("--ids,--id", o.ids, "only these problems")->delimiter(',');
  app.add_option("--layout", o.layout, "weights as [out, in], [in, out] or both")
      ->check(CLI::IsMember({"oi", "io", "both"}));
  app.add_option("--only", o.only, "one contestant, or only the check of results")
      ->check(CLI::IsMember({"fused", "unfused", "cublaslt", "check"}));
  app.add_option("--seeds", o.seeds, "sets of random inputs to check with");
  app.add_option("--check-rows", o.check_rows, "rows to check; 0: all up to 5e10 FLOP, else 64");
  app.add_option("--replays", o.replays, "graph replays of which the median is taken")
      ->check(CLI::Range(1, 1000));
  app.add_option("--sweep", o.sweep, "measure the best N schedules of each ranking instead")
      ->check(CLI::Range(0, 10000));
  app.add_option("--compile-threads", o.compile_threads, "threads that search and compile")
      ->check(CLI::Range(1, 1024));
  app.add_option("--out", o.out,
                 "results file; default: tests/bench/results/<gpu>-<date>-<commit>");
  app.add_option("--sweep-out", o.sweep_out, "sweep file; default: --out with -sweep");
  app.add_option("--peers", o.peers, "best times of other systems, for tables and the summary");
  app.add_option("--markdown", o.markdown, "print this results file as a table and stop");
  app.add_option("--cublaslt", o.cublaslt, "libcublasLt to open");
  app.add_option("--device", o.device, "GPU ordinal");
  app.add_flag("--cache", o.cache, "use the kernel cache of the environment");
}

int Error(const absl::Status& status) {
  std::fprintf(stderr, "sinter_bench: %s\n", std::string(status.message()).c_str());
  return 2;
}

Peers PeersOrNone(const std::string& file) {
  absl::StatusOr<Peers> peers = ReadPeers(file);
  return peers.ok() ? *std::move(peers) : Peers{};
}

int PrintMarkdown(const Options& o) {
  const absl::StatusOr<Results> results = ReadResults(o.markdown);
  if (!results.ok()) return Error(results.status());
  const Peers peers = PeersOrNone(o.peers);
  std::printf("%s\n%s", MarkdownTables(*results, peers).c_str(), Summary(*results, peers).c_str());
  return 0;
}

std::string Figure(const std::optional<double>& value) {
  char text[16] = "      -";
  if (value.has_value()) std::snprintf(text, sizeof text, "%7.2f", *value);
  return text;
}

void PrintRow(const Row& r, const Peers& peers) {
  const auto peer = peers.find(r.id);
  const std::optional<double> best =
      peer == peers.end() ? std::nullopt : std::optional<double>(peer->second);
  std::printf(
      "%-4s %s %-7s predicted %s fused %s hot %s unfused %s pdl %s lt %s peer %s limit %s "
      "host %s rel %.1e max %.3f %s\n",
      r.id.c_str(), r.layout.c_str(), r.chosen.c_str(), Figure(r.predicted_us).c_str(),
      Figure(r.fused_cold_us).c_str(), Figure(r.fused_hot_us).c_str(),
      Figure(r.unfused_cold_us).c_str(), Figure(r.chosen_pdl_us).c_str(),
      Figure(r.cublaslt_cold_us).c_str(), Figure(best).c_str(), Figure(r.limit_us).c_str(),
      Figure(r.host_us).c_str(), r.rel_error.value_or(-1), r.max_error.value_or(-1),
      r.correct ? "ok" : "WRONG");
  for (const std::string& note : r.notes) std::printf("     %s\n", note.c_str());
}

void PrintSweepRow(const SweepRow& r) {
  std::printf("%-4s %s %-6s %3d predicted %7.2f (%s) measured %s  %s %s\n", r.id.c_str(),
              r.layout.c_str(), r.kind.c_str(), r.rank, r.predicted_us.at("total"), r.bound.c_str(),
              Figure(r.measured_us).c_str(), r.schedule.c_str(), r.note.c_str());
}

class Bench {
 public:
  explicit Bench(Options options) : o_(std::move(options)) {}

  int Run() {
    absl::StatusOr<std::vector<Case>> cases = LoadCases(o_.problems, o_.ids, o_.layout);
    if (!cases.ok()) return Error(cases.status());
    cases_ = *std::move(cases);
    absl::StatusOr<Config> config = ConfigFromEnvironment();
    if (!config.ok()) return Error(config.status());
    config_ = *std::move(config);
    if (!o_.cache) config_.cache_enabled = false;
    const LogSink log(LogLevel::kError, [](LogLevel, absl::string_view message) {
      std::fprintf(stderr, "%s\n", std::string(message).c_str());
    });
    absl::StatusOr<Ports> ports = MakePorts(config_, o_.device, "", log);
    if (!ports.ok()) {
      std::printf("skipped: %s\n", std::string(ports.status().message()).c_str());
      return kSkipped;
    }
    engine_ = Engine::Create(*std::move(ports), config_, log);
    results_.machine = DescribeMachine(config_, o_.device);
    results_.source = DescribeSource();
    peers_ = PeersOrNone(o_.peers);
    if (o_.out.empty()) o_.out = DefaultFileName(results_);
    return o_.sweep > 0 ? RunSweep() : RunCases();
  }

 private:
  const Ports& ports() const { return engine_->ports(); }

  std::vector<PreparedCase> PrepareAll() {
    std::vector<std::optional<PreparedCase>> slots(cases_.size());
    const auto start = std::chrono::steady_clock::now();
    watchdog_.Begin("preparing", 240);
    reference::ParallelFor(o_.compile_threads, static_cast<int64_t>(cases_.size()), 1,
                           [&](int64_t begin, int64_t end) {
                             for (int64_t i = begin; i < end; ++i) {
                               const size_t at = static_cast<size_t>(i);
                               slots[at] = PrepareCase(engine_.get(), cases_[at]);
                             }
                           });
    watchdog_.End();
    std::vector<PreparedCase> prepared;
    for (std::optional<PreparedCase>& slot : slots) prepared.push_back(*std::move(slot));
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    const EngineStats stats = engine_->Stats();
    std::printf(
        "prepared %zu chains in %.1f s: %llu kernels compiled, search %.0f ms, compile "
        "%.0f ms of thread time\n",
        cases_.size(), spent.count(), static_cast<unsigned long long>(stats.kernels_compiled),
        stats.search_us / 1e3, stats.compile_us / 1e3);
    return prepared;
  }

  MeasureOptions Measuring() const {
    MeasureOptions m;
    m.seeds = o_.seeds;
    m.check_rows = o_.check_rows;
    m.replays = o_.replays;
    m.time = o_.only != "check";
    if (o_.only == "check" || o_.only.empty()) return m;
    m.fused = o_.only == "fused";
    m.unfused = o_.only == "unfused";
    m.cublaslt = o_.only == "cublaslt";
    return m;
  }

  int RunCases() {
    const MeasureOptions measuring = Measuring();
    std::optional<LtContext> lt;
    if (measuring.cublaslt && measuring.time) {
      absl::StatusOr<LtContext> made = MakeLtContext(ports(), o_.cublaslt);
      if (made.ok()) lt = *std::move(made);
      if (!made.ok()) std::printf("%s\n", std::string(made.status().message()).c_str());
    }
    const std::vector<PreparedCase> prepared = PrepareAll();
    bool right = true;
    for (size_t i = 0; i < cases_.size(); ++i) {
      results_.rows.push_back(
          MeasureCase(ports(), cases_[i], prepared[i], lt, measuring, &watchdog_));
      PrintRow(results_.rows.back(), peers_);
      right = right && results_.rows.back().correct;
      const absl::Status written = WriteResults(results_, o_.out, false);
      if (!written.ok()) return Error(written);
      if (!DeviceAlive()) return 1;
    }
    std::printf("%swrote %s\n", Summary(results_, peers_).c_str(), o_.out.c_str());
    return right ? 0 : 1;
  }

  int RunSweep() {
    SweepOptions sweep;
    sweep.top = o_.sweep;
    sweep.threads = o_.compile_threads;
    sweep.replays = std::min(o_.replays, sweep.replays);
    sweep.fused = o_.only.empty() || o_.only == "fused";
    sweep.unfused = o_.only.empty() || o_.only == "unfused";
    if (o_.sweep_out.empty()) {
      o_.sweep_out = absl::StrCat(absl::StripSuffix(o_.out, ".json"), "-sweep.json");
    }
    for (const Case& c : cases_) {
      const absl::StatusOr<std::vector<SweepRow>> rows = SweepCase(ports(), c, sweep, &watchdog_);
      if (!rows.ok()) return Error(rows.status());
      for (const SweepRow& row : *rows) {
        PrintSweepRow(row);
        results_.sweep.push_back(row);
      }
      const absl::Status written = WriteResults(results_, o_.sweep_out, true);
      if (!written.ok()) return Error(written);
      if (!DeviceAlive()) return 1;
    }
    std::printf("%swrote %s\n", CorrelationText(results_.sweep).c_str(), o_.sweep_out.c_str());
    return 0;
  }

  // After a fault every later call fails: what was measured is in the file, the rest would be
  // noise.
  bool DeviceAlive() {
    watchdog_.Begin("the device", 10);
    const absl::Status status =
        ports().measurer->RunAndWait([](StreamHandle) { return absl::OkStatus(); });
    watchdog_.End();
    if (!status.ok()) {
      std::printf("the device is lost: %s\n", std::string(status.message()).c_str());
    }
    return status.ok();
  }

  Options o_;
  Config config_;
  gpu_testing::Watchdog watchdog_;
  std::shared_ptr<Engine> engine_;
  std::vector<Case> cases_;
  Results results_;
  Peers peers_;
};

int Main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  CLI::App app("Measures Sinter on a GPU, beside cuBLASLt's serving form and the limit.");
  Options options;
  AddOptions(app, options);
  CLI11_PARSE(app, argc, argv);
  if (!options.markdown.empty()) return PrintMarkdown(options);
  return Bench(std::move(options)).Run();
}

}  // namespace
}  // namespace sinter::bench

int main(int argc, char** argv) { return sinter::bench::Main(argc, argv); }
