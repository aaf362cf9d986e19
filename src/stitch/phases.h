// The phases of a program: which roots share a loop, at which level, behind which barrier of the
// grid.
#ifndef SINTER_SRC_STITCH_PHASES_H_
#define SINTER_SRC_STITCH_PHASES_H_

#include "absl/status/status.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"

namespace sinter {

// Of a program whose owner, uses and handed-over values are known. FAILED_PRECONDITION naming the
// op that cannot be computed so, or with which a bound of body_work.h is passed. `budget` may be
// null.
absl::Status MakePhases(const Chain& body, StitchProgram& program, StitchBudget* budget);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_PHASES_H_
