// SearchOptions: what a search of either family may rank.
#ifndef SINTER_SRC_MODEL_SEARCH_OPTIONS_H_
#define SINTER_SRC_MODEL_SEARCH_OPTIONS_H_

#include <cstdint>

#include "src/base/keep_going.h"

namespace sinter {

struct StitchBudget;  // stitch/body_work.h

// Who may be offered a dataflow of products. What a model ranks by less than it errs, or behind
// others at all sizes, is for tuning, which measures, and for benches and tests.
enum class Offered : uint8_t { kPlanning, kTuning };

struct SearchOptions {
  int top_k = 11;                        // kept schedules, best first
  bool allow_cooperative = true;         // false: only schedules without waiting across clusters
  Offered offered = Offered::kPlanning;  // of products: what is for tuning as well
  // Of stitched kernels, for tuning and benches. Also more blocks an SM than estimated registers
  // leave room for, down to what is kept: some spill, others gain what no estimate can promise.
  bool tight_registers = false;
  bool kinds_first = false;        // the best of each kind in front (stitch_kinds.h)
  bool batch_invariant = false;    // only schedules in the row order of all buckets (row_order.h)
  Pace* pace = nullptr;            // stepped by what is visited: WorkStopped comes from there
  StitchBudget* budget = nullptr;  // what stitched kernels may cost to plan; null: unbounded
};

}  // namespace sinter

#endif  // SINTER_SRC_MODEL_SEARCH_OPTIONS_H_
