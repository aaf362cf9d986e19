// Parts of a plan's text that several texts share.
#ifndef SINTER_SRC_PLAN_PLAN_TEXT_H_
#define SINTER_SRC_PLAN_PLAN_TEXT_H_

#include <string>

#include "src/plan/plan.h"

namespace sinter {

// "plan fused  m<=128  1 kernel ..", "without M" for a chain without M; then the digest.
std::string PlanHeadText(const Plan& plan);
// "kernel 0  chain  ..", then its schedule, launch and operands.
std::string KernelHeadText(size_t index, const PlannedKernel& kernel);
// A plan's name in a list of candidates: "fused [grid-exchange bm128 ..]"; for more than two
// kernels their number, and equal schedules once.
std::string NameInList(const Plan& plan);
// Measured microseconds of all kernels; 0 unless each was measured.
double MeasuredUs(const Plan& plan);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PLAN_TEXT_H_
