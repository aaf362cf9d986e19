#include "src/engine/kernel_swaps.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace sinter {
namespace {

bool SameOperands(const KernelSpec& a, const KernelSpec& b) {
  return a.operands == b.operands &&
         (a.stitch == nullptr || a.stitch->operands == b.stitch->operands);
}

bool ComputesTheSame(const PlannedKernel& a, const PlannedKernel& b) {
  return a.spec.family == b.spec.family && SameProblem(a.spec, b.spec) &&
         SameOperands(a.spec, b.spec);
}

}  // namespace

bool SameProblem(const KernelSpec& a, const KernelSpec& b) {
  if (a.stitch == nullptr || b.stitch == nullptr) {
    return a.stitch == b.stitch && a.sequence == b.sequence;
  }
  return a.stitch->body == b.stitch->body;
}

bool SameCut(const Plan& a, const Plan& b) {
  return a.bucket == b.bucket && a.kernels.size() == b.kernels.size() &&
         std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(), ComputesTheSame);
}

bool SameDataflows(const Plan& a, const Plan& b) {
  return SameCut(a, b) && std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(),
                                     [](const PlannedKernel& x, const PlannedKernel& y) {
                                       return x.spec.schedule.dataflow == y.spec.schedule.dataflow;
                                     });
}

std::vector<Plan> KernelSwaps(const Plan& plan, size_t kernel, const std::vector<Plan>& ranking,
                              size_t limit) {
  std::set<std::string> seen = {ScheduleBytes(plan.kernels[kernel].spec)};
  std::vector<Plan> swaps;
  size_t considered = 0;
  for (const Plan& other : ranking) {
    if (!SameCut(plan, other)) continue;
    if (considered++ == limit) break;
    if (!seen.insert(ScheduleBytes(other.kernels[kernel].spec)).second) continue;
    Plan swap = plan;
    swap.kernels[kernel] = other.kernels[kernel];
    swap.workspace_bytes = std::max(plan.workspace_bytes, other.workspace_bytes);
    swaps.push_back(std::move(swap));
  }
  return swaps;
}

}  // namespace sinter
