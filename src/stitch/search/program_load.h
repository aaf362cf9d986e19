// The load of a program: bytes and instructions, counted loop by loop from the roots. stitch_load.h
// adds the effects of threads and shared memory.
#ifndef SINTER_SRC_STITCH_SEARCH_PROGRAM_LOAD_H_
#define SINTER_SRC_STITCH_SEARCH_PROGRAM_LOAD_H_

#include <cstdint>

#include "src/base/device_model.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"
#include "src/stitch/search/stitch_load.h"

namespace sinter {

// How often each loop computes its values; valid as long as `program`. `pace` may be null.
LoopEvaluations EvaluationsOfLoops(const Chain& body, const StitchProgram& program, Pace* pace,
                                   int pixels = 1);

// At `m` rows. Depends on the schedule's vector and on what it keeps; `times`: EvaluationsOfLoops.
StitchLoad LoadOfProgram(const Chain& body, const StitchProgram& program,
                         const StitchSchedule& schedule, int64_t m, const LoopEvaluations& times,
                         const StitchConstants& costs);

// Serial reductions on the longest path to a sub-root, each reading the one before.
int SerialDepthOf(const Chain& body, const StitchProgram& program);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SEARCH_PROGRAM_LOAD_H_
