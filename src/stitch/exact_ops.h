// ExactOps: what a kernel computes with full f32 precision.
#ifndef SINTER_SRC_STITCH_EXACT_OPS_H_
#define SINTER_SRC_STITCH_EXACT_OPS_H_

#include <vector>

#include "src/chain/chain.h"

namespace sinter {

// Ops that an f32 output is made of, by op: computed within a few units in the last place. Not
// those of which it takes a share in a result of about one alone: exponentials about the largest of
// their row, which are summed, and an error function that 1 is added to. The short forms' errors
// are a few units in the last place of 1.
std::vector<bool> ExactOps(const Chain& body);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_EXACT_OPS_H_
