// Moments: a second moment of columns about the mean of the same elements (a variance) is computed
// in one pass with that mean, instead of in a later phase.
#ifndef SINTER_SRC_STITCH_MOMENTS_H_
#define SINTER_SRC_STITCH_MOMENTS_H_

#include "src/chain/chain.h"
#include "src/stitch/program.h"

namespace sinter {

// The column mean for which column reduction `id` is the second moment: `id` sums (or averages) the
// squares of x - mean(x), element by element. -1: none.
ValueId MeanOfMoment(const Chain& body, const StitchProgram& program, ValueId id);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_MOMENTS_H_
