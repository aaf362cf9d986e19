// Parts shared by drawings of plans. Each draws at `at` and returns the height that it took.
#ifndef SINTER_SRC_PLAN_PICTURE_PLAN_SVG_PARTS_H_
#define SINTER_SRC_PLAN_PICTURE_PLAN_SVG_PARTS_H_

#include <string>

#include "src/draw/svg.h"
#include "src/plan/picture/fusion_picture.h"
#include "src/plan/picture/picture_svg.h"
#include "src/plan/plan.h"

namespace sinter {

constexpr double kMargin = 20, kPad = 16;

// "fused plan, m <= 128: predicted 11.50 us".
std::string PlanTitle(const Plan& plan);
double DrawPlanHead(const Plan& plan, Point at, Svg* svg);
// `numbers`: the kernels' numbers in the plan.
double DrawKernelHead(const std::string& numbers, const PlannedKernel& kernel, Point at, Svg* svg);
// `times`: for a stitch kernel.
double DrawLevels(const PlannedKernel& kernel, const FusionTimes& times, Point at, Svg* svg);
// Wraps text at `width`; only a longer word exceeds it. Draws nothing for "".
double DrawLines(absl::string_view text, Point at, absl::string_view style, Svg* svg,
                 double width = kDrawingWidth);

// Precondition: `picture` is that of `plan`.
std::string StitchPlanSvg(const Plan& plan, const FusionPicture& picture);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PICTURE_PLAN_SVG_PARTS_H_
