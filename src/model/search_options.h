// SearchOptions: what a search of either family may rank.
#ifndef SINTER_SRC_MODEL_SEARCH_OPTIONS_H_
#define SINTER_SRC_MODEL_SEARCH_OPTIONS_H_

#include <cstdint>

#include "src/base/keep_going.h"

namespace sinter {

struct StitchBudget;  // stitch/body_work.h

// Where a dataflow of products is offered. kTuning: dataflows that the model cannot rank reliably,
// or ranks behind others at all sizes; tuning, benches and tests measure them.
enum class Offered : uint8_t { kPlanning, kTuning };

struct SearchOptions {
  int top_k = 11;                        // schedules kept, best first
  bool allow_cooperative = true;         // false: only schedules without waiting across clusters
  Offered offered = Offered::kPlanning;  // dataflows of products: also those for tuning
  // Stitched kernels, for tuning and benches: also tries more blocks an SM than the estimated
  // registers allow, down to the registers kept. Some such kernels spill, others are faster than
  // estimated.
  bool tight_registers = false;
  bool kinds_first = false;        // the best of each kind first (stitch_kinds.h)
  bool batch_invariant = false;    // only schedules in the row order of all buckets (row_order.h)
  bool stand_ins = false;          // only kernels that come with the library
  Pace* pace = nullptr;            // one step a visit; throws WorkStopped
  StitchBudget* budget = nullptr;  // planning work that stitched kernels may take; null: unbounded
};

}  // namespace sinter

#endif  // SINTER_SRC_MODEL_SEARCH_OPTIONS_H_
