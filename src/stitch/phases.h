// The phases of a program: the loops of its roots, their levels, and the grid barriers between
// them.
#ifndef SINTER_SRC_STITCH_PHASES_H_
#define SINTER_SRC_STITCH_PHASES_H_

#include "absl/status/status.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"

namespace sinter {

// Precondition: owner, uses and handed-over values of `program` are set. FAILED_PRECONDITION naming
// the op that cannot be computed so, or at which a bound of body_work.h is exceeded. `budget` may
// be null.
absl::Status MakePhases(const Chain& body, StitchProgram& program, StitchBudget* budget);

// Moments: a second moment of columns about the mean of the same elements (a variance) is computed
// in one pass with that mean, instead of in a later phase.

// The column mean for which column reduction `id` is the second moment: `id` sums (or averages) the
// squares of x - mean(x), element by element. -1: none.
ValueId MeanOfMoment(const Chain& body, const StitchProgram& program, ValueId id);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_PHASES_H_
