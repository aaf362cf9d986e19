// Sizes that follow from a program and a schedule: planning, codegen and launch agree on them here.
#ifndef SINTER_SRC_STITCH_SIZES_H_
#define SINTER_SRC_STITCH_SIZES_H_

#include <cstdint>
#include <vector>

#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

// Elements that a thread of `loop` takes at once: the schedule's, as far as they divide the loop's
// elements and the borders of concatenations.
int LoopVector(const Chain& body, const StitchSchedule& schedule, const StitchLoop& loop);
// Neighbouring lanes that take one element of `loop` together, each a share of its own reductions.
int LoopSplit(const StitchSchedule& schedule, const StitchLoop& loop);
// Turns of a unit's threads through the loop's elements.
int64_t LoopTurns(const Chain& body, const StitchSchedule& schedule, const StitchLoop& loop);

// Units whose reads a thread has under way together: more than one only where nothing waits inside
// a unit, in phases without reductions of rows or segments and without hand-overs.
int UnitsAtOnce(const Chain& body, const StitchSchedule& schedule, const StitchPhase& phase);

// Units (of a block's groups together) that a block takes one after another, at `m` rows.
int64_t UnitRounds(const StitchProgram& program, const StitchSchedule& schedule, int64_t m);

// Row reductions that the largest loop makes at once.
int RowSlots(const StitchProgram& program);
// What stands in a block's shared memory in front of what is handed over (slots.h), not rounded up.
int64_t HandsOffset(const Chain& body, const StitchProgram& program,
                    const StitchSchedule& schedule);
// Dynamic shared memory of a block.
int64_t StitchSharedBytes(const Chain& body, const StitchProgram& program,
                          const StitchSchedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SIZES_H_
