#include <algorithm>

#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/fusion/assembly.h"
#include "src/fusion/plan_assembly.h"
#include "src/plan/collective_family.h"
#include "src/product/search/search.h"

namespace sinter {
namespace {

constexpr int64_t kManyTurns = 64;  // of which the last sends next to nothing
constexpr int64_t kMostRowsOfOneTile = 256;
constexpr int kManySchedules = 40;  // of which one may compute more columns early

// The schedule of a step if it sums what the kernel before it pushes; none for other steps.
std::optional<CollectiveSchedule> PushedScheduleOf(const PlanStep& step) {
  if (step.run == nullptr || !step.run->IsOwn()) return std::nullopt;
  return CollectiveKernels::PushedSchedule(step.run->own.family, step.own.own);
}

// The schedules of a run of products; none of other steps.
const std::vector<RankedSchedule>& SchedulesOf(const PlanStep& step) {
  static const std::vector<RankedSchedule>* const none = new std::vector<RankedSchedule>();
  return step.run != nullptr && !step.run->IsOwn() ? step.ranked : *none;
}

ProductSequence LastProduct(const PlanStep& step) {
  const Segment& last = step.segments.back();
  return step.run->matched.sequence.Part(last.begin, last.count);
}

// Whether the last kernel of `product`, of one product, computes what `sum` adds of all ranks, a
// row for a row: no reshape of the sum's run stands between. Both are launched for the same rows: a
// launch of no rows computes only rows of constants.
bool Feeds(const Chain& chain, const PlanStep& product, const PlanStep& sum) {
  if (SchedulesOf(product).empty() || sum.run == nullptr || !sum.run->IsOwn()) return false;
  const std::vector<OwnRun::Operand>& operands = sum.run->own.operands;
  if (operands.empty() || operands.front().value != product.run->end) return false;
  const ProductSequence part = LastProduct(product);
  const std::vector<Dim>& dims = chain.op(product.run->end).type.dims;
  if (chain.op(sum.run->end).type.dims != dims) return false;
  if (product.run->constant_rows && chain.UsesM()) return false;
  return part.size() == 1 && part.rows_per_m == 1 && operands.front().offset_bytes == 0 &&
         dims.size() == 2 && dims[1] == Dim::Constant(part.back().n);
}

double TimeOf(const OwnChoice& choice) {
  double us = 0;
  for (const Prediction& kernel : choice.kernels) us += kernel.total_us;
  return us;
}

}  // namespace

absl::Status CheckPushedSums(const Chain& chain, const std::vector<PlanStep>& steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::vector<RankedSchedule>& ranked = SchedulesOf(steps[i]);
    for (size_t k = 0; k < ranked.size(); ++k) {
      const int ranks = ranked[k].schedule.pushes;
      if (ranks == 0) continue;
      std::optional<CollectiveSchedule> sum;
      if (k + 1 == ranked.size() && i + 1 < steps.size()) sum = PushedScheduleOf(steps[i + 1]);
      if (!sum.has_value() || !Feeds(chain, steps[i], steps[i + 1])) {
        return OpRefused(steps[i].run->end, " is pushed, and no sum over ranks takes it");
      }
      if (ranks != chain.ranks()) {
        return OpRefused(steps[i].run->end, " is pushed to ", ranks, " ranks, the chain has ",
                         chain.ranks());
      }
      const int64_t sent = ranked[k].schedule.pushed_columns, awaited = sum->pushed_columns;
      if (sent != awaited) {
        return OpRefused(steps[i].run->end, " is pushed by ", sent, " columns, its sum awaits ",
                         awaited);
      }
    }
    if (!PushedScheduleOf(steps[i]).has_value()) continue;
    const bool sent = i > 0 && Feeds(chain, steps[i - 1], steps[i]) &&
                      steps[i - 1].ranked.back().schedule.pushes > 0;
    if (!sent) return OpRefused(steps[i].run->end, ": nothing is pushed for its sum");
  }
  return absl::OkStatus();
}

// Searches the product's kernels. A kernel of few rows pushes all of them, and is charged for the
// transfer of a block's last tile, which it cannot overlap. A kernel of many rows pushes the
// columns that it has computed before its last turn, each turn's while it computes the next.
std::optional<PushedSums::Pair> PushedSums::Best(const PlanStep& product, const PlanStep& sum,
                                                 bool behind) const {
  const ProductSequence part = LastProduct(product);
  const bool early = part.rows() > kMostRowsOfOneTile;
  const auto choice = [&](int64_t turns, int64_t columns) {
    return CollectiveKernels::RankPushed(sum.run->own, turns, columns, bucket_, model_);
  };
  SearchOptions options = options_;
  options.behind = behind;
  if (early) {
    options.top_k = std::max(options.top_k, kManySchedules);
  } else {
    const absl::StatusOr<OwnChoice> at_once = choice(1, 0), late = choice(kManyTurns, 0);
    if (!at_once.ok() || !late.ok()) return std::nullopt;
    options.pushes = chain_.ranks();
    options.pushed_us = TimeOf(*at_once) - TimeOf(*late);
  }
  const absl::StatusOr<SearchResult> found = SearchSchedules(part, model_, options);
  if (!found.ok()) return std::nullopt;
  std::optional<Pair> best;
  for (const RankedSchedule& ranked : found->ranked) {
    Pair pair{ranked, {}, ranked.prediction.total_us};
    Schedule& s = pair.product.schedule;
    const int64_t turns = TurnsOf(part, s), columns = early ? EarlyColumns(part, s) : 0;
    if (early) {
      s.pushes = chain_.ranks();
      s.pushed_columns = static_cast<int>(columns);
      if (columns == 0 || !CheckSchedule(part, s, model_).ok()) continue;
      const double bytes = static_cast<double>(part.rows() * columns) *
                           static_cast<double>(part.back().ResultBytes() * (s.pushes - 1));
      const double sent_us =
          pair.us / static_cast<double>(turns) + bytes / model_.link_bytes_per_us;
      pair.us = std::max(pair.us, sent_us);
    }
    absl::StatusOr<OwnChoice> of = choice(early ? 0 : turns, columns);
    if (!of.ok()) continue;
    pair.sum = *std::move(of);
    pair.us += TimeOf(pair.sum);
    if (!best.has_value() || pair.us < best->us) best = std::move(pair);
  }
  return best;
}

bool PushedSums::Put(std::vector<PlanStep>* steps) {
  bool any = false;
  for (size_t i = 1; i < steps->size(); ++i) {
    PlanStep &product = (*steps)[i - 1], &sum = (*steps)[i];
    if (!Feeds(chain_, product, sum)) continue;
    const bool behind = i > 1 || product.segments.size() > 1;
    const auto [at, fresh] = known_.try_emplace({sum.run, behind});
    if (fresh) at->second = Best(product, sum, behind);
    const std::optional<Pair>& pair = at->second;
    const double now = product.ranked.back().prediction.total_us + TimeOf(sum.own);
    if (!pair.has_value() || pair->us >= now) continue;
    product.ranked.back() = pair->product;
    sum.own = pair->sum;
    any = true;
  }
  return any;
}

}  // namespace sinter
