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
// Offset of the part of hand-overs (phases.h) or of staged inputs (shared_reads.h) in a block's
// shared memory, not rounded up.
int64_t HandsOffset(const Chain& body, const StitchProgram& program,
                    const StitchSchedule& schedule);
// Dynamic shared memory of a block.
int64_t StitchSharedBytes(const Chain& body, const StitchProgram& program,
                          const StitchSchedule& schedule);

// Where a kernel's column reductions leave their parts and results: in the workspace's scratch and
// in shared memory.

// Offsets in bytes. A result has 4 bytes a column.
struct ColumnPlace {
  ValueId value = -1;
  ValueId mean = -1;  // computed together with it (program.h)
  int64_t columns = 0;
  int64_t part_bytes = 4;  // bytes of a column in a part
  uint64_t parts = 0;      // in the scratch
  // In shared memory where each block joins for itself, else in the scratch; unused for outputs.
  int64_t results = 0, mean_results = 0;
  int output = -1, mean_output = -1;
};

struct ColumnLayout {
  std::vector<ColumnPlace> places;
  uint64_t scratch_bytes = 0;
  // Shared memory of a block; it begins with the space for the block's own joins.
  int64_t shared_bytes = 0;
};

// The output that column reduction `value` is, unchanged in memory, so that the joining threads may
// store it. -1: no output, or one that is converted or placed elsewhere.
int ColumnOutput(const Chain& body, ValueId value);

// Columns that a column reduction has: what it keeps of a unit's elements, which are one column of
// a whole reduction.
int64_t ColumnsOf(const Chain& body, ValueId value);

// Whether all that `phase` does is store such outputs.
bool OnlyStoresColumns(const Chain& body, const StitchProgram& program, const StitchPhase& phase);

ColumnLayout LayOutColumns(const Chain& body, const StitchProgram& program,
                           const StitchSchedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SIZES_H_
