// Parts of a plan's text that more than one text is made of.
#ifndef SINTER_SRC_PLAN_PLAN_TEXT_H_
#define SINTER_SRC_PLAN_PLAN_TEXT_H_

#include <string>

#include "src/plan/plan.h"

namespace sinter {

// "plan fused  m<=128  1 kernel ..", "without M" of a chain that has none; then the digest.
std::string PlanHeadText(const Plan& plan);
// "kernel 0  chain  ..", then its schedule, launch and operands.
std::string KernelHeadText(size_t index, const PlannedKernel& kernel);
// What a plan is called in a list of candidates: "fused [grid-exchange bm128 ..]"; of more than two
// kernels how many, equal schedules once.
std::string NameInList(const Plan& plan);
// Microseconds that all kernels took where they were measured; 0 unless each of them was.
double MeasuredUs(const Plan& plan);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PLAN_TEXT_H_
