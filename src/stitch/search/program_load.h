// What a program moves and computes, counted loop by loop from the roots up. What threads and
// shared memory change of it is stitch_load.h.
#ifndef SINTER_SRC_STITCH_SEARCH_PROGRAM_LOAD_H_
#define SINTER_SRC_STITCH_SEARCH_PROGRAM_LOAD_H_

#include <cstdint>

#include "src/base/stitch_constants.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"
#include "src/stitch/search/stitch_load.h"

namespace sinter {

// How often values are asked for in each loop; valid as long as `program`. `pace` may be null.
LoopEvaluations EvaluationsOfLoops(const Chain& body, const StitchProgram& program, Pace* pace);

// At `m` rows. Of the schedule, its vector and what it keeps count; `times`: EvaluationsOfLoops.
StitchLoad LoadOfProgram(const Chain& body, const StitchProgram& program,
                         const StitchSchedule& schedule, int64_t m, const LoopEvaluations& times,
                         const StitchConstants& costs);

// Reductions of a thread's own that read one another on the longest way to a sub-root.
int SerialDepthOf(const Chain& body, const StitchProgram& program);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_PROGRAM_LOAD_H_
