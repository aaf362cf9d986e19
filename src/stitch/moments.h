// Moments: a second moment down columns about the mean of the same elements (a variance) is made in
// one pass together with that mean, instead of in a phase of its own behind it.
#ifndef SINTER_SRC_STITCH_MOMENTS_H_
#define SINTER_SRC_STITCH_MOMENTS_H_

#include "src/chain/chain.h"
#include "src/stitch/program.h"

namespace sinter {

// The column mean that column reduction `id` is the second moment about: `id` sums (or means)
// squares of x less that mean of x, element by element. -1: it is none.
ValueId MeanOfMoment(const Chain& body, const StitchProgram& program, ValueId id);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_MOMENTS_H_
