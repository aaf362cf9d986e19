// What searches of every family share: what they may rank, and a cost model's estimate of one
// kernel.
#ifndef SINTER_SRC_MODEL_SEARCH_H_
#define SINTER_SRC_MODEL_SEARCH_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/base/fields.h"
#include "src/base/keep_going.h"

namespace sinter {

// Predicted time of one kernel, in all and by level, in microseconds; `bound` names the largest
// level.
struct Prediction {
  double total_us = 0;
  double hbm_us = 0, l2_us = 0, intake_us = 0, shared_us = 0, dsm_us = 0, tensor_us = 0,
         fixed_us = 0;
  double hbm_bytes = 0, l2_bytes = 0, dsm_bytes = 0;
  std::string bound;          // "hbm", "l2", "intake", "shared", "dsm", "tensor", "latency"
  double out_of_step_us = 0;  // what total_us would be more, did the blocks not start in step
  SINTER_FIELDS(Prediction, total_us, hbm_us, l2_us, intake_us, shared_us, dsm_us, tensor_us,
                fixed_us, hbm_bytes, l2_bytes, dsm_bytes, bound, out_of_step_us);
};

// A legal schedule of a kernel, and its predicted time.
template <typename Schedule>
struct RankedKernel {
  Schedule schedule;
  Prediction prediction;
};

// The fastest first; of equal ones the first stays ahead.
template <typename Ranked>
void SortByTime(std::vector<Ranked>* ranked) {
  std::stable_sort(ranked->begin(), ranked->end(), [](const Ranked& a, const Ranked& b) {
    return a.prediction.total_us < b.prediction.total_us;
  });
}

// FourNorm: combines the times of levels that work at once.

// FlashFuser takes the maximum. On this chip levels that are nearly equal slow one another down, so
// the 4-norm is used: at least the maximum, at most 1.5 times it with five equal levels. IEEE
// square roots are equal on every machine, unlike pow, so plans can be compared across machines.
inline double FourNorm(std::initializer_list<double> times) {
  double sum = 0;
  for (double t : times) sum += t * t * t * t;
  return std::sqrt(std::sqrt(sum));
}

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

#endif  // SINTER_SRC_MODEL_SEARCH_H_
