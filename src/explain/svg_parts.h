// Parts of a drawing. Each function draws at `at` and returns the height that it took, so that
// parts can be stacked.
#ifndef SINTER_SRC_EXPLAIN_SVG_PARTS_H_
#define SINTER_SRC_EXPLAIN_SVG_PARTS_H_

#include <string>

#include "src/draw/svg.h"
#include "src/explain/explain.h"

namespace sinter {

constexpr double kDrawingWidth = 1120, kMargin = 20, kPad = 16;

// The style for transfers through `medium`: "dsm", "l2", ..
absl::string_view StyleOf(Medium medium);

// The products' operands, their tiles coloured by cluster, and the hand-over between them.
double DrawProducts(const ProductsPicture& picture, Point at, Svg* svg);
// Of a convolution: the image with its windows, and which steps of K load which tap.
double DrawWindows(const ProductsPicture& picture, Point at, Svg* svg);
// One cluster: its blocks with their shared memory to scale, and the exchanges between them.
double DrawCluster(const ProductsPicture& picture, Point at, Svg* svg);
// All blocks of the launch, clusters framed.
double DrawLaunch(const ProductsPicture& picture, Point at, Svg* svg);
// The ops of a stitched kernel in rows by depth.
double DrawOps(const KernelDescription& kernel, Point at, Svg* svg);

// Wraps text at `width`; only a longer word exceeds it. Draws nothing for "".
double DrawLines(absl::string_view text, Point at, absl::string_view style, Svg* svg,
                 double width = kDrawingWidth);

}  // namespace sinter

#endif  // SINTER_SRC_EXPLAIN_SVG_PARTS_H_
