// OpLayout: where the ops of a drawing stand and how the lines between them run. Pure geometry.
#ifndef SINTER_SRC_PLAN_PICTURE_OP_LAYOUT_H_
#define SINTER_SRC_PLAN_PICTURE_OP_LAYOUT_H_

#include <map>
#include <vector>

#include "src/draw/svg.h"
#include "src/plan/picture/fusion_picture.h"

namespace sinter {

struct OpEdge {
  int from = 0, to = 0;  // of KernelFusion::ops
  int read = 0;          // of the reader's reads
  std::vector<Point> path;
};

// Ops in rows by depth, as many side by side as fit; lines run down from an op, along the space
// between rows, and past rows in the space between columns. So no line passes a box, and lines of
// one space have lanes of their own. Deterministic. From {0, 0} to {width, height}.
struct OpLayout {
  std::map<int, Box> boxes;
  std::vector<OpEdge> edges;
  double width = 0, height = 0;
};

// Of `ops`, whose reads come before them; reads of others have no line.
OpLayout LayOutOps(const KernelFusion& fusion, const std::vector<int>& ops);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_PICTURE_OP_LAYOUT_H_
