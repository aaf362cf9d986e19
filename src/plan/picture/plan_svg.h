// A plan as a self-contained SVG: for each kernel its products and tiles, one cluster with its
// exchanges, the launch, the time of each level; and a legend.
#ifndef SINTER_SRC_PLAN_PICTURE_PLAN_SVG_H_
#define SINTER_SRC_PLAN_PICTURE_PLAN_SVG_H_

#include <string>

#include "src/plan/picture/fusion_picture.h"
#include "src/plan/plan.h"

namespace sinter {

// Well-formed XML for any plan. A kernel whose schedule CheckScheduleFields refuses is named, not
// drawn. A plan with stitch kernels is drawn from `picture`: equal kernels once, their ops, the
// hand-overs, and what was not fused and why.
std::string PlanSvg(const Plan& plan, const FusionPicture& picture = {});

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PICTURE_PLAN_SVG_H_
