// Draws a kernel's picture in SVG, part by part. Each function draws at `at` and returns the height
// that it took, so that parts can be stacked.
#ifndef SINTER_SRC_PLAN_PICTURE_PICTURE_SVG_H_
#define SINTER_SRC_PLAN_PICTURE_PICTURE_SVG_H_

#include "src/draw/svg.h"
#include "src/plan/picture/picture.h"

namespace sinter {

constexpr double kDrawingWidth = 1120;

// The style for transfers through `medium`: "dsm", "l2", ..
absl::string_view StyleOf(Medium medium);

// The products' operands, their tiles coloured by cluster, and the hand-over between them.
double DrawProducts(const KernelPicture& picture, Point at, Svg* svg);
// Of a convolution: the image with its windows, and which steps of K load which tap.
double DrawWindows(const KernelPicture& picture, Point at, Svg* svg);
// One cluster: its blocks with their shared memory to scale, and the exchanges between them.
double DrawCluster(const KernelPicture& picture, Point at, Svg* svg);
// All blocks of the launch, clusters framed.
double DrawLaunch(const KernelPicture& picture, Point at, Svg* svg);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PICTURE_PICTURE_SVG_H_
