#include "tests/bench/options.h"

#include "CLI/CLI.hpp"
#include "src/product/dataflow/dataflow.h"
#include "tests/bench/random_problems.h"

namespace sinter::bench {
namespace {

void AddModes(CLI::App& app, Options& o) {
  app.add_flag("--never-slower", o.never_slower,
               "the random problems: chosen against the better of unfused and cuBLASLt");
  app.add_option("--sweep", o.sweep, "measure the best N schedules of each ranking")
      ->check(CLI::Range(1, 10000));
  app.add_flag("--brute-force", o.brute_force,
               "measure every schedule of the space: predicted best against global best");
  app.add_flag("--rank{50}", o.rank,
               "measure N schedules stratified over predicted time: --rank=N");
  app.add_flag("--ablation", o.ablation, "unfused, without DSM, with DSM at random, searched");
  app.add_flag("--profile", o.profiling, "launch one computation cold, for a profiler");
  app.add_flag("--host", o.host,
               "host time of a launch beside the driver's own calls; --graphs: of others");
  app.add_option("--graphs", o.graphs,
                 "graphs of memory-intensive ops: JSON files, folders of them, problem lists")
      ->delimiter(',');
  app.add_option("--graph-schedules", o.graph_schedules,
                 "of --graphs: so many schedules of each, all ops in one kernel")
      ->check(CLI::Range(1, 10000));
  app.add_flag("--random-graphs{200}", o.random_graphs,
               "random graphs of memory-intensive ops: --random-graphs=N");
  app.add_flag("--paper", o.paper,
               "print FlashFuser's space of each problem, counted rule by rule");
  app.add_option("--markdown", o.markdown, "print this results file as a table");
  app.add_flag("--random-problems{60}", o.random_problems, "print a random problem list");
}

std::vector<std::string> Contestants() {
  std::vector<std::string> names = {"fused", "kinds", "unfused", "cublaslt", "check"};
  for (const DataflowRow* row : AllDataflows()) {
    if (row->products > 1) names.emplace_back(row->name);
  }
  return names;
}

void AddChoices(CLI::App& app, Options& o) {
  app.add_option("--problems,--file", o.problems, "problem lists")->delimiter(',');
  app.add_option("--ids,--id", o.ids, "only these problems")->delimiter(',');
  app.add_option("--layout", o.layout, "weights as [out, in], [in, out], both, or as in the file")
      ->check(CLI::IsMember({"oi", "io", "both", "file"}));
  app.add_option("--only", o.only, "one contestant, or only the check of results")
      ->check(CLI::IsMember(Contestants()));
  app.add_option("--contestant", o.profile, "what --profile launches")
      ->check(CLI::IsMember({"fused", "unfused", "chosen", "cublaslt"}));
  app.add_option("--measure", o.measure,
                 "choose each plan by measuring so many candidates; times the predicted one too")
      ->check(CLI::Range(1, 64));
  app.add_flag("--batch-invariant", o.batch_invariant, "also the batch-invariant plan");
  app.add_flag("--energy", o.energy, "also the board's energy for each computation");
  app.add_option("--strata", o.strata, "of --rank: equal steps of time, or equal counts")
      ->check(CLI::IsMember({"time", "count"}));
}

void AddMeasuring(CLI::App& app, Options& o) {
  app.add_option("--seeds", o.seeds, "sets of random inputs to check with");
  app.add_option("--check-rows", o.check_rows, "rows to check; 0: all up to 5e10 FLOP, else 64");
  app.add_option("--replays", o.replays, "graph replays of which the median is taken")
      ->check(CLI::Range(1, 1000));
  app.add_option("--seconds", o.seconds, "of --brute-force, for each problem")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", o.seed, "of random choices; 0: the mode's own");
  app.add_option("--compile-threads", o.compile_threads, "threads that search and compile")
      ->check(CLI::Range(1, 1024));
  app.add_option("--out", o.out,
                 "results file; default: tests/bench/results/<gpu>-<date>-<commit>[-mode]");
  app.add_option("--cublaslt", o.cublaslt, "libcublasLt to open");
  app.add_option("--random-elements", o.random_elements, "of a random graph's first shape")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  app.add_option("--device", o.device, "GPU ordinal");
  app.add_flag("--cache", o.cache, "use the kernel cache of the environment");
}

}  // namespace

void AddOptions(CLI::App& app, Options& o) {
  o.compile_threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  AddModes(app, o);
  AddChoices(app, o);
  AddMeasuring(app, o);
}

absl::StatusOr<Mode> ModeOf(Options* o) {
  if (o->host && o->graphs.empty()) o->graphs = {"tests/bench/problems/host_time.txt"};
  const bool graphs = !o->graphs.empty() || o->random_graphs > 0;
  const std::pair<bool, Mode> modes[] = {
      {o->never_slower, Mode::kNeverSlower},
      {o->sweep > 0, Mode::kSweep},
      {o->brute_force, Mode::kBruteForce},
      {o->rank > 0, Mode::kRank},
      {o->ablation, Mode::kAblation},
      {o->profiling, Mode::kProfile},
      {graphs && o->graph_schedules == 0 && !o->host, Mode::kGraphs},
      {graphs && o->graph_schedules > 0, Mode::kGraphSchedules},
      {o->host, Mode::kHost},
      {!o->markdown.empty(), Mode::kMarkdown},
      {o->paper, Mode::kPaper},
      {o->random_problems > 0, Mode::kRandomProblems},
  };
  Mode mode = Mode::kCases;
  int asked = 0;
  for (const auto& [wanted, one] : modes) {
    if (wanted) mode = one, ++asked;
  }
  if (asked > 1) return absl::InvalidArgumentError("two modes at once: ask for one");
  if (o->seed == 0) o->seed = mode == Mode::kRandomProblems ? kNeverSlowerSeed : 1;
  if (o->layout.empty()) o->layout = mode == Mode::kNeverSlower ? "file" : "oi";
  if (!o->problems.empty() || graphs) return mode;
  if (mode == Mode::kNeverSlower) {
    o->problems = {"tests/bench/problems/never_slower.txt"};
  } else {
    o->problems = {"tests/bench/problems/gemm_chains.txt", "tests/bench/problems/gated_ffn.txt"};
  }
  return mode;
}

}  // namespace sinter::bench
