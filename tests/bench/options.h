// Options: the command line of sinter_bench.
#pragma once

#include "tests/support/common.h"

namespace CLI {
class App;
}

namespace sinter::bench {

// What a run does; README.md describes each.
enum class Mode {
  kCases,
  kNeverSlower,
  kSweep,
  kBruteForce,
  kRank,
  kAblation,
  kProfile,
  kGraphs,
  kGraphSchedules,
  kHost,
  kMarkdown,
  kPaper,
  kRandomProblems,
};

struct Options {
  std::vector<std::string> problems, ids;  // empty: the mode's own lists, all of them
  std::vector<std::string> graphs;         // files and folders of --graphs
  std::string layout;                      // empty: the mode's own
  std::string only, out, markdown, cublaslt;
  std::string profile = "fused", strata = "time";
  int device = 0, seeds = 1, replays = 15, compile_threads = 1;
  int sweep = 0, rank = 0, random_problems = 0, random_graphs = 0;  // 0: not that mode
  int measure = 0;          // candidates that the chosen plan is measured among; 0: prediction
  int graph_schedules = 0;  // of each graph; 0: chosen and unfused plan
  int64_t random_elements = int64_t{1} << 20;  // of a random graph's first shape
  bool never_slower = false, brute_force = false, ablation = false, paper = false,
       profiling = false, host = false;
  bool batch_invariant = false, energy = false, cache = false;
  int64_t check_rows = 0;
  uint64_t seed = 0;     // 0: the mode's own
  double seconds = 240;  // of a brute force, for each problem

  // Whether the mode measures products of 8-bit codes.
  bool TakesCodes() const { return sweep > 0 || rank > 0 || brute_force; }
};

void AddOptions(CLI::App& app, Options& options);

// INVALID_ARGUMENT when two modes are asked for. Fills in what the mode decides.
absl::StatusOr<Mode> ModeOf(Options* options);

}  // namespace sinter::bench
