// Search: schedules for a sequence, pruned, costed by the device model, ranked. Deterministic;
// never asks a driver.
#ifndef SINTER_SRC_SEARCH_SEARCH_H_
#define SINTER_SRC_SEARCH_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/base/keep_going.h"
#include "src/plan/plan.h"

namespace sinter {

struct StitchBudget;  // plan/stitch/body_work.h

struct SearchOptions {
  int top_k = 11;                 // kept schedules, best first
  bool allow_cooperative = true;  // false: only schedules without waiting across clusters
  bool cluster_ranges = false;    // also schedules in which clusters share M tiles: they never won
  // Also task lists, and cluster exchanges with gate and up in ranks of their own: they win by less
  // than predictions err; tuning has them.
  bool task_lists = false;
  bool spatial_gates = false;
  bool slabs = false;  // also cluster exchanges whose slab does not hold all of C
  // Of stitched kernels, for tuning and benches. Also more blocks an SM than estimated registers
  // leave room for, down to what is kept: some spill, others gain what no estimate can promise.
  bool tight_registers = false;
  bool kinds_first = false;        // the best of each kind in front (stitch_kinds.h)
  bool batch_invariant = false;    // only schedules in the row order of all buckets (row_order.h)
  Pace* pace = nullptr;            // stepped by what is visited: WorkStopped comes from there
  StitchBudget* budget = nullptr;  // what stitched kernels may cost to plan; null: unbounded
};

struct RankedSchedule {
  Schedule schedule;
  Prediction prediction;
};

struct SearchResult {
  std::vector<RankedSchedule>
      ranked;               // at most top_k, best predicted first; ties by Schedule::Canonical()
  uint64_t considered = 0;  // candidates enumerated
  uint64_t legal = 0;       // after pruning
  double search_us = 0;     // wall time; not part of any plan
};

// Products == 2: chain family (kGridExchange, kClusterExchange, kTaskList). Products == 1: gemm
// family. FAILED_PRECONDITION with the reason when no schedule is legal. Thread-safe.
absl::StatusOr<SearchResult> SearchSchedules(const ProductSequence& sequence,
                                             const DeviceModel& model,
                                             const SearchOptions& options);

// The analytical cost of one legal schedule.
Prediction Predict(const ProductSequence& sequence, const Schedule& schedule,
                   const DeviceModel& model);

// The same kernel right behind another of its plan: a programmatic edge lets it start while that
// one ends.
Prediction BehindProgrammaticEdge(Prediction prediction, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_SEARCH_SEARCH_H_
