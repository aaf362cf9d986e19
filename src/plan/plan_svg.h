// A plan as a self-contained SVG: for each kernel its products and tiles, one cluster with its
// exchanges, the launch, the time of each level; a legend.
#ifndef SINTER_SRC_PLAN_PLAN_SVG_H_
#define SINTER_SRC_PLAN_PLAN_SVG_H_

#include <string>

#include "src/plan/plan.h"

namespace sinter {

// Well-formed XML for any plan; a kernel whose schedule CheckScheduleFields refuses is named and
// not drawn.
std::string PlanSvg(const Plan& plan);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PLAN_SVG_H_
