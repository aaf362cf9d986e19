// The phases of a program: which roots share a loop, at which level, behind which barrier of the
// grid.
#ifndef SINTER_SRC_PLAN_STITCH_PHASES_H_
#define SINTER_SRC_PLAN_STITCH_PHASES_H_

#include "absl/status/status.h"
#include "src/chain/chain.h"
#include "src/plan/stitch/program.h"

namespace sinter {

// Of a program whose owner, uses and handed-over values are known. FAILED_PRECONDITION naming the
// op that cannot be computed so.
absl::Status MakePhases(const Chain& body, StitchProgram& program);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_STITCH_PHASES_H_
