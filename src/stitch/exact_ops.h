// ExactOps: the ops that a kernel computes with full f32 precision.
#ifndef SINTER_SRC_STITCH_EXACT_OPS_H_
#define SINTER_SRC_STITCH_EXACT_OPS_H_

#include <vector>

#include "src/chain/chain.h"

namespace sinter {

// By op: whether an f32 output depends on it, so that it is computed within a few units in the last
// place. Exceptions, which only add to a result of about one: exponentials about their row's
// largest element that are summed, and an error function that 1 is added to. The fast forms' errors
// are a few units in the last place of 1. Exact too are the quotients that codes of 8 bits are
// multiplied by: they decide on which side a tie falls.
std::vector<bool> ExactOps(const Chain& body);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_EXACT_OPS_H_
