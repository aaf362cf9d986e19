// The cost of one op for one element of a thread: issue slots and special function instructions.
#ifndef SINTER_SRC_STITCH_OP_COST_H_
#define SINTER_SRC_STITCH_OP_COST_H_

#include <vector>

#include "src/chain/chain.h"
#include "src/stitch/precision.h"

namespace sinter {

struct OpCost {
  double issue = 0;
  double special = 0;
};

// Shape ops cost nothing, nor does what is computed as a part of a Compound; reads and writes are
// not counted. `precisions` are PrecisionsOf(body).
OpCost CostOfOp(const Chain& body, const std::vector<Precision>& precisions, ValueId id);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_OP_COST_H_
