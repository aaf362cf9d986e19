#include "src/engine/kernel_swaps.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace sinter {
namespace {

bool ComputesTheSame(const PlannedKernel& a, const PlannedKernel& b) {
  return a.spec.family == b.spec.family && a.ops == b.ops &&
         a.spec.sequence.size() == b.spec.sequence.size();
}

}  // namespace

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

}  // namespace sinter
