#include "src/product/search/search.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/dataflow/time_line.h"
#include "src/product/schedule_check.h"
#include "src/product/search/space.h"

namespace sinter {
namespace {

struct Ranked {
  double total_us;
  std::string canonical;
  Schedule schedule;
  bool operator<(const Ranked& o) const {
    return total_us != o.total_us ? total_us < o.total_us : canonical < o.canonical;
  }
};

// Keeps the best `limit` schedules.
class TopK {
 public:
  explicit TopK(size_t limit) : limit_(limit) {}
  void Offer(double total_us, const Schedule& schedule) {
    if (best_.size() == limit_ && total_us > best_.back().total_us) return;
    Ranked entry{total_us, schedule.Canonical(), schedule};
    const auto at = std::lower_bound(best_.begin(), best_.end(), entry);
    if (at != best_.end() && at->canonical == entry.canonical) return;
    best_.insert(at, std::move(entry));
    if (best_.size() > limit_) best_.pop_back();
  }
  const std::vector<Ranked>& best() const { return best_; }

 private:
  size_t limit_;
  std::vector<Ranked> best_;
};

// Of a result that is pushed, what is sent when all is computed.
double UnhiddenUs(const ProductSequence& sequence, const Schedule& s,
                  const SearchOptions& options) {
  return options.pushes == 0 ? 0 : options.pushed_us / static_cast<double>(TurnsOf(sequence, s));
}

// In its place of a plan. A cooperative launch waits until all earlier work has ended.
Prediction PredictInPlace(const ProductSequence& sequence, const Schedule& s,
                          const DeviceModel& model, bool behind) {
  const Prediction alone = Predict(sequence, s, model);
  return behind && !IsCooperative(s) ? BehindProgrammaticEdge(alone, model) : alone;
}

}  // namespace

absl::StatusOr<SearchResult> SearchSchedules(const ProductSequence& sequence,
                                             const DeviceModel& model,
                                             const SearchOptions& options) {
  if (options.top_k < 1) {
    return Invalid("search: top_k ", options.top_k, " is below 1");
  }
  SINTER_RETURN_IF_ERROR(CheckSequence(sequence));
  const auto start = std::chrono::steady_clock::now();
  SearchResult result;
  // Prediction errors differ between dataflows, so tuning measures some schedules of each.
  const bool of_each = options.offered == Offered::kTuning;
  std::map<Dataflow, TopK> top;
  absl::Status last_refusal;
  EnumerateSpace(sequence, model, options, [&](Schedule s) {
    s.pushes = options.pushes;
    Step(options.pace);
    result.considered++;
    absl::Status legal = CheckScheduleAlone(sequence, s, model);
    if (legal.ok() && options.batch_invariant) legal = CheckRowOrder(sequence, s);
    if (!legal.ok()) {
      last_refusal = legal;
      return;
    }
    result.legal++;
    const Dataflow list = of_each ? s.dataflow : Dataflow::kNone;
    TopK& best = top.try_emplace(list, static_cast<size_t>(options.top_k)).first->second;
    best.Offer(PredictInPlace(sequence, s, model, options.behind).total_us +
                   UnhiddenUs(sequence, s, options),
               s);
  });
  if (result.legal == 0) {
    return FailedPrecondition(
        "search: none of ", result.considered, " schedules is legal for ", sequence.ToString(),
        last_refusal.ok() ? "" : "; the last refusal was: ", last_refusal.message());
  }
  std::vector<Ranked> ranked;
  for (const auto& [dataflow, best] : top) {
    ranked.insert(ranked.end(), best.best().begin(), best.best().end());
  }
  std::sort(ranked.begin(), ranked.end());
  for (const Ranked& r : ranked) {
    result.ranked.push_back(
        {r.schedule, PredictInPlace(sequence, r.schedule, model, options.behind)});
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  result.search_us = spent.count();
  return result;
}

// The analytical cost model. Every constant is a field of DeviceModel; the time line of each
// dataflow is in its file of src/product/dataflow.

Prediction Predict(const ProductSequence& sequence, const Schedule& schedule,
                   const DeviceModel& model) {
  return RowOf(schedule).predict(sequence, schedule, model);
}

Prediction BehindProgrammaticEdge(Prediction prediction, const DeviceModel& model) {
  const double saved = std::min(model.programmatic_edge_us, prediction.fixed_us);
  prediction.fixed_us -= saved;
  prediction.total_us += prediction.out_of_step_us - saved;
  prediction.out_of_step_us = 0;
  prediction.bound = BoundOf(prediction);
  return prediction;
}

}  // namespace sinter
