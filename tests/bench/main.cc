// sinter_bench: problem lists in, one JSON file of measurements out. README.md has the protocol.
#include "CLI/CLI.hpp"
#include "tests/bench/modes.h"
#include "tests/bench/random_problems.h"

namespace sinter::bench {
namespace {

int Error(const absl::Status& status) {
  std::fprintf(stderr, "sinter_bench: %s\n", std::string(status.message()).c_str());
  return 2;
}

int PrintMarkdown(const Options& o) {
  const absl::StatusOr<Results> results = ReadResults(o.markdown);
  if (!results.ok()) return Error(results.status());
  std::printf("%s\n%s", MarkdownTables(*results).c_str(), Summary(*results).c_str());
  return 0;
}

struct Measuring {
  Mode mode;
  int (*run)(Session*);
  const char* suffix;  // of the default results file
};

constexpr Measuring kMeasuring[] = {
    {Mode::kCases, RunCases, ""},
    {Mode::kNeverSlower, RunNeverSlower, "-never-slower"},
    {Mode::kSweep, RunSweep, "-sweep"},
    {Mode::kBruteForce, RunBruteForce, "-brute-force"},
    {Mode::kRank, RunRank, "-rank"},
    {Mode::kAblation, RunAblation, "-ablation"},
    {Mode::kProfile, RunProfile, "-profile"},
    {Mode::kGraphs, RunGraphs, "-graphs"},
    {Mode::kGraphSchedules, RunGraphSchedules, "-graph-schedules"},
    {Mode::kHost, RunHost, "-host"},
};

int Measure(const Measuring& mode, Options options) {
  absl::StatusOr<std::unique_ptr<Session>> session = Session::Open(std::move(options), mode.suffix);
  if (absl::IsUnavailable(session.status())) {
    std::printf("skipped: %s\n", std::string(session.status().message()).c_str());
    return kSkipped;
  }
  if (!session.ok()) return Error(session.status());
  const int code = mode.run(session->get());
  const absl::Status written = (*session)->Write();
  if (!written.ok()) return Error(written);
  std::printf("wrote %s\n", (*session)->options().out.c_str());
  return code;
}

int Main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  CLI::App app("Measures Sinter on a GPU, compared with cuBLASLt's serving form and the limit.");
  Options options;
  AddOptions(app, options);
  CLI11_PARSE(app, argc, argv);
  const absl::StatusOr<Mode> mode = ModeOf(&options);
  if (!mode.ok()) return Error(mode.status());
  if (*mode == Mode::kMarkdown) return PrintMarkdown(options);
  if (*mode == Mode::kPaper) return PrintPaper(options);
  if (*mode == Mode::kRandomProblems) {
    std::printf("%s", RandomProblemList(options.seed, options.random_problems).c_str());
    return 0;
  }
  for (const Measuring& one : kMeasuring) {
    if (one.mode == *mode) return Measure(one, std::move(options));
  }
  return Error(absl::InternalError("a mode without a function"));
}

}  // namespace
}  // namespace sinter::bench

int main(int argc, char** argv) { return sinter::bench::Main(argc, argv); }
