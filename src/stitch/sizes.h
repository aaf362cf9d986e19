// Sizes that follow from a program and a schedule, shared by planning, codegen and launch.
#ifndef SINTER_SRC_STITCH_SIZES_H_
#define SINTER_SRC_STITCH_SIZES_H_

#include <cstdint>
#include <vector>

#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

// Elements that a thread of `loop` takes at once: the schedule's vector, reduced to divide the
// loop's elements and the borders of concatenations.
int LoopVector(const Chain& body, const StitchSchedule& schedule, const StitchLoop& loop);
// Neighbouring lanes that share one element of `loop`, each with a part of its serial reductions.
int LoopSplit(const StitchSchedule& schedule, const StitchLoop& loop);
// Turns of a unit's threads through the loop's elements.
int64_t LoopTurns(const Chain& body, const StitchSchedule& schedule, const StitchLoop& loop);

// Units whose reads a thread has in flight together: more than one only where nothing waits inside
// a unit, in phases without row reductions, segments and hand-overs.
int UnitsAtOnce(const Chain& body, const StitchSchedule& schedule, const StitchPhase& phase);

// The most of all phases: rounds that are held in shared memory are whole batches of each.
int UnitsAtOnce(const Chain& body, const StitchSchedule& schedule, const StitchProgram& program);

// Rounds of units that a block makes at `m` rows; its groups take theirs together.
int64_t UnitRounds(const StitchProgram& program, const StitchSchedule& schedule, int64_t m);

// The most row reductions of one loop.
int RowSlots(const StitchProgram& program);
// Offset of the part of hand-overs (slots.h) or of staged inputs (staging.h) in a block's shared
// memory, not rounded up.
int64_t HandsOffset(const Chain& body, const StitchProgram& program,
                    const StitchSchedule& schedule);
// Dynamic shared memory of a block.
int64_t StitchSharedBytes(const Chain& body, const StitchProgram& program,
                          const StitchSchedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SIZES_H_
