// How far an output of a chain may be from its reference, when kernels round between products.
#ifndef SINTER_SRC_REFERENCE_CHAIN_BOUNDS_H_
#define SINTER_SRC_REFERENCE_CHAIN_BOUNDS_H_

#include "src/chain/chain.h"
#include "src/reference/compare.h"

namespace sinter {

// BoundsFor the output's dtype, or of a coarser one that it had on its way, which a cast rounds to
// and a kernel may round to where it hands the value over: a value near a tie is rounded to either
// side, a whole step of that dtype apart. Those hold for two
// roundings, a product's result and the next one's; a sequence of products is rounded after each,
// and the errors, which are independent, add up by their squares: each product adds one unit, a
// gated one first doubles what it is given, as both halves carry it. The bounds grow with the root
// of the units above two.
Bounds BoundsOf(const Chain& chain, int output);

}  // namespace sinter

#endif  // SINTER_SRC_REFERENCE_CHAIN_BOUNDS_H_
