// OpLayout: the positions of a drawing's ops and the lines between them. Pure geometry.
#ifndef SINTER_SRC_EXPLAIN_OP_LAYOUT_H_
#define SINTER_SRC_EXPLAIN_OP_LAYOUT_H_

#include <map>
#include <vector>

#include "src/draw/svg.h"
#include "src/explain/explanation.h"

namespace sinter {

struct OpEdge {
  int from = 0, to = 0;  // indices in ExplainedKernel::ops
  int read = 0;          // index in the reader's reads
  std::vector<Point> path;
};

// Ops stand in rows by depth, as many side by side as fit, in boxes of one width. Lines run down
// from an op, along the gap between rows, and past rows in the gap between columns: no line crosses
// a box, and the lines in one gap have separate lanes. Deterministic. From {0, 0} to {width,
// height}.
struct OpLayout {
  std::map<int, Box> boxes;
  std::vector<OpEdge> edges;
  double width = 0, height = 0;
};

// Lays out `ops`, each after the ops that it reads. Reads of other ops have no line. `heights`: of
// the ops' boxes.
OpLayout LayOutOps(const ExplainedKernel& kernel, const std::vector<int>& ops, double width,
                   const std::map<int, double>& heights);

}  // namespace sinter

#endif  // SINTER_SRC_EXPLAIN_OP_LAYOUT_H_
