// Results: the rows of a run and the JSON file they are kept in.
#pragma once

#include "src/base/fields.h"
#include "tests/bench/machine.h"
#include "tests/bench/source_state.h"
#include "tests/support/common.h"

namespace sinter::bench {

// Times in microseconds; absent where nothing was measured. Files have the order of a row's table.
// The fields are documented in README.md.
struct Row {
  std::string id, problem, layout;
  std::string plan, chosen;  // the chosen plan's schedules; "fused" or "unfused"
  std::string fused_schedule, unfused_schedule;
  std::optional<double> predicted_us, fused_predicted_us, unfused_predicted_us;
  std::optional<double> fused_cold_us, fused_hot_us, fused_pdl_us;
  std::optional<double> unfused_cold_us, unfused_hot_us, unfused_pdl_us;
  std::optional<double> chosen_cold_us, chosen_pdl_us;
  std::optional<double> untuned_cold_us;  // chosen by prediction, where a tuning set chooses
  std::optional<double> batch_invariant_cold_us;
  std::optional<double> cublaslt_cold_us, cublaslt_hot_us;
  std::optional<double> chosen_mj_per_call, fused_mj_per_call, unfused_mj_per_call,
      cublaslt_mj_per_call;  // millijoules of the board
  double limit_us = 0;
  std::optional<double> host_us;
  std::optional<double> rel_error, max_error;  // of the worst plan that was checked
  std::optional<double> cublaslt_rel_error;
  bool correct = false;
  std::vector<std::string> notes;  // what went wrong or was left out

  SINTER_FIELDS(Row, id, problem, layout, plan, chosen, predicted_us, fused_predicted_us,
                unfused_predicted_us, fused_cold_us, fused_hot_us, fused_pdl_us, unfused_cold_us,
                unfused_hot_us, unfused_pdl_us, chosen_cold_us, chosen_pdl_us, untuned_cold_us,
                batch_invariant_cold_us, cublaslt_cold_us, cublaslt_hot_us, limit_us,
                chosen_mj_per_call, fused_mj_per_call, unfused_mj_per_call, cublaslt_mj_per_call,
                host_us, rel_error, max_error, cublaslt_rel_error, correct, fused_schedule,
                unfused_schedule, notes);
};

// One graph of memory-intensive ops; times cold, in a CUDA graph with plain edges.
struct GraphRow {
  std::string id, problem;  // problem: the line of a list; "" for a JSON file
  double ops = 0, bytes = 0;
  std::string checked;  // with what: "reference", "reference, 64 rows", "unfused plan"
  std::string chosen;   // name of the plan
  double kernels = 0, unfused_kernels = 0;
  std::optional<double> predicted_us, unfused_predicted_us;
  std::optional<double> chosen_us, unfused_us;
  std::optional<double> untuned_us;  // of the predicted choice, where a tuning set chose
  double limit_us = 0;
  std::optional<double> host_us;  // CPU time of one launch of the chosen plan without a graph
  double prepare_us = 0, rotation_bytes = 0;
  std::optional<double> rel_error, max_error;  // of the worst run; e4m3 outputs left out
  bool correct = false;
  std::vector<std::string> notes;

  SINTER_FIELDS(GraphRow, id, problem, ops, bytes, checked, chosen, kernels, unfused_kernels,
                predicted_us, unfused_predicted_us, chosen_us, unfused_us, untuned_us, limit_us,
                host_us, prepare_us, rotation_bytes, rel_error, max_error, correct, notes);
};

// One schedule that a mode built and timed.
struct SweepRow {
  std::string id, layout, kind;  // what it was measured for: README.md has the kinds
  int rank = 0;                  // in the search's order, from 1
  std::string schedule, bound;
  std::map<std::string, double> predicted_us;  // "total" and every level
  std::optional<double> measured_us, rel_error;
  std::string note;

  SINTER_FIELDS(SweepRow, id, layout, kind, rank, schedule, bound, predicted_us, measured_us,
                rel_error, note);
};

// How well the search does on one problem.
struct SearchRow {
  std::string id, layout, kind;           // kind: "brute-force", "rank"
  double considered = 0, legal = 0;       // schedules of the space
  double measured = 0, failed = 0;        // of those that were tried
  std::string best_schedule;              // of the fastest that was measured
  std::optional<double> best_us, top_us;  // of all, of the predicted top 11
  std::optional<double> first_us;         // of the one predicted to be fastest
  std::optional<double> spearman;         // of predicted and measured times
  double search_seconds = 0;              // ranking, then building and timing the top 11
  double all_seconds = 0;                 // building and timing all that were measured

  SINTER_FIELDS(SearchRow, id, layout, kind, considered, legal, measured, failed, best_schedule,
                best_us, top_us, first_us, spearman, search_seconds, all_seconds);
};

// Bytes that the analyzer predicts for one computation.
struct BytesRow {
  std::string id, layout, contestant, schedule;
  double kernels = 0;  // launches; 0 where that is not known
  std::optional<double> dram_read_bytes, l2_bytes, dsm_bytes;  // absent for cuBLASLt

  SINTER_FIELDS(BytesRow, id, layout, contestant, schedule, kernels, dram_read_bytes, l2_bytes,
                dsm_bytes);
};

// CPU time of one launch of a plan without a graph, in microseconds.
struct HostRow {
  std::string id, problem, plan;
  double kernels = 0;
  double launch_us = 0, bare_us = 0;  // the library's; its kernels using only the driver
  double changing_us = 0;             // the library's, with other rows at every launch
  double aim_us = 0;                  // of launch_us - bare_us

  SINTER_FIELDS(HostRow, id, problem, plan, kernels, launch_us, bare_us, changing_us, aim_us);
};

struct Results {
  Machine machine;
  SourceState source;
  // The digest of the tuning set that plans were chosen by; "measured 11": by 11 candidates each
  // that their prepares measured; "": by prediction.
  std::string tuning_set;
  std::vector<Row> rows;
  std::vector<GraphRow> graphs;
  std::vector<SweepRow> sweep;
  std::vector<SearchRow> search;
  std::vector<BytesRow> bytes;
  std::vector<HostRow> host;
};

// Whole file, replaced at once, so that a run that dies leaves the rows before.
absl::Status WriteResults(const Results& results, const std::string& file);
// Machine, commit, `rows` and `graphs`; what else the file has is not read.
absl::StatusOr<Results> ReadResults(const std::string& file);

// "tests/bench/results/h200-20261121-1234abcd.json" with the run's GPU, date and commit.
std::string DefaultFileName(const Results& results);

}  // namespace sinter::bench
