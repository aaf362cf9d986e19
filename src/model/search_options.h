// SearchOptions: what a search of either family may rank.
#ifndef SINTER_SRC_MODEL_SEARCH_OPTIONS_H_
#define SINTER_SRC_MODEL_SEARCH_OPTIONS_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "src/base/keep_going.h"

namespace sinter {

struct StitchBudget;  // stitch/body_work.h
class Chain;
struct DeviceModel;
struct ProductSequence;
struct Schedule;

// Kernels that there are already, for a search that may offer no others.
class ReadyKernels {
 public:
  virtual ~ReadyKernels() = default;
  // Their schedules for these products, each with its grid.
  virtual void Visit(const ProductSequence& sequence, const DeviceModel& model,
                     const std::function<void(const Schedule&)>& visit) const = 0;
  // FAILED_PRECONDITION naming what of a stitched body none of them computes.
  virtual absl::Status Check(const Chain& body) const = 0;
};

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
  bool kinds_first = false;      // the best of each kind first (stitch_search.h)
  bool batch_invariant = false;  // only schedules in the row order of all buckets (src/plan/plan.h)
  bool behind = false;  // another kernel of the plan runs ahead, on a programmatic edge if it may
  // Of a product whose result is pushed to so many ranks (Schedule::pushes): what sending all of it
  // takes, of which a block's last tile is not hidden. 0: it is not pushed.
  int pushes = 0;
  double pushed_us = 0;
  const ReadyKernels* only = nullptr;  // these kernels alone, such as the library's own; null: any
  Pace* pace = nullptr;                // one step a visit; throws WorkStopped
  StitchBudget* budget = nullptr;  // planning work that stitched kernels may take; null: unbounded
};

}  // namespace sinter

#endif  // SINTER_SRC_MODEL_SEARCH_OPTIONS_H_
