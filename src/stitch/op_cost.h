// The cost of one op for one element of a thread: issue slots and special function instructions.
#ifndef SINTER_SRC_STITCH_OP_COST_H_
#define SINTER_SRC_STITCH_OP_COST_H_

#include "src/chain/op.h"

namespace sinter {

struct OpCost {
  double issue = 0;
  double special = 0;
};

// `exact`: an f32 result depends on it. Shape ops cost nothing; reads and writes are not counted.
OpCost CostOfOp(const Op& op, bool exact);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_OP_COST_H_
