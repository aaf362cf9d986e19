#include "src/engine/tune_ranking.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "src/base/status.h"
#include "src/engine/plan_builder.h"
#include "src/engine/plan_record.h"
#include "src/plan/family.h"

namespace sinter {
namespace {

// Plans of other dataflows than the predicted choice's are tried if they are predicted to take at
// most this times its time.
constexpr double kWorthTrying = 1.3;

// Whether it has a kernel that planning by prediction leaves out.
bool IsForTuning(const Plan& plan) {
  return std::any_of(plan.kernels.begin(), plan.kernels.end(), [](const PlannedKernel& kernel) {
    return kernel.spec.family->IsForTuning(kernel.spec);
  });
}

// Appends the plans for tuning that are not in the ranking yet.
void AddPlans(std::vector<Plan> more, FusionResult* planned) {
  std::set<Digest> known = {planned->chosen.PlanDigest()};
  for (const Plan& plan : planned->alternatives) known.insert(plan.PlanDigest());
  for (Plan& plan : more) {
    if (IsForTuning(plan) && known.insert(plan.PlanDigest()).second) {
      planned->alternatives.push_back(std::move(plan));
    }
  }
}

bool ComputesTheSame(const PlannedKernel& a, const PlannedKernel& b) {
  return a.spec.family == b.spec.family && a.ops == b.ops &&
         a.spec.sequence.size() == b.spec.sequence.size();
}

std::vector<double> Ranks(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return values[i] < values[j]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double mean = (static_cast<double>(begin) + static_cast<double>(end) - 1) / 2;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = mean;
    begin = end;
  }
  return ranks;
}

}  // namespace

absl::StatusOr<FusionResult> PlanForTuning(const PlanRequest& request, int top_k,
                                           const BuildControl& control, EngineCore& core) {
  FusionOptions options;
  options.keep_going = &control;
  options.batch_invariant = request.batch_invariant;
  options.top_k = top_k;
  core.counters.searched.fetch_add(1, std::memory_order_relaxed);
  SINTER_ASSIGN_OR_RETURN(FusionResult planned, PlanOf(request, options, core));
  options.for_tuning = true;
  SINTER_ASSIGN_OR_RETURN(FusionResult more, PlanOf(request, options, core));
  more.alternatives.insert(more.alternatives.begin(), std::move(more.chosen));
  AddPlans(std::move(more.alternatives), &planned);
  return planned;
}

std::vector<Plan> PlansToTry(const std::vector<Plan>& ranking, int top_k) {
  std::vector<Plan> tried;
  bool has_unfused = false;
  const double most_us = kWorthTrying * ranking.front().PredictedUs();
  for (const Plan& plan : ranking) {
    const auto alike = std::count_if(tried.begin(), tried.end(),
                                     [&](const Plan& other) { return SameDataflows(other, plan); });
    const bool worth = alike < top_k / 4 && plan.PredictedUs() <= most_us;
    const bool room = static_cast<int>(tried.size()) < std::max(top_k, 1);
    if (!room && !worth && (has_unfused || plan.fused)) continue;
    has_unfused |= !plan.fused;
    tried.push_back(plan);
  }
  return tried;
}

bool SameCut(const Plan& a, const Plan& b) {
  return a.bucket == b.bucket && a.absorbed == b.absorbed && a.kernels.size() == b.kernels.size() &&
         std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(), ComputesTheSame);
}

bool SameDataflows(const Plan& a, const Plan& b) {
  return SameCut(a, b) && std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(),
                                     [](const PlannedKernel& x, const PlannedKernel& y) {
                                       return x.spec.schedule.dataflow == y.spec.schedule.dataflow;
                                     });
}

std::vector<Decisions> KernelSwaps(const Plan& plan, size_t kernel,
                                   const std::vector<Plan>& ranking, size_t limit) {
  std::set<std::string> seen = {ScheduleBytes(plan.kernels[kernel].spec)};
  const Decisions own = DecisionsOf(plan);
  std::vector<Decisions> swaps;
  size_t considered = 0;
  for (const Plan& other : ranking) {
    if (!SameCut(plan, other)) continue;
    if (considered++ == limit) break;
    if (!seen.insert(ScheduleBytes(other.kernels[kernel].spec)).second) continue;
    swaps.push_back(own);
    swaps.back().kernels[kernel] = DecisionsOf(other).kernels[kernel];
  }
  return swaps;
}

double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = Ranks(a), y = Ranks(b);
  const double mean = (static_cast<double>(x.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace sinter
