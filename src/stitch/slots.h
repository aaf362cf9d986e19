// Slots: the places of shared memory that a phase's handed-over values use in turn (FusionStitching
// 2018, section 3; 2020, section 4.4).
//
// A value takes the slot of one that neither its own pass nor a later one takes. The dominance tree
// of the phase's sub-roots, from what leaves the phase to what it reads, gives the order of choice:
// if the value dominates the old one, all readers of the old one lead to it, so they have met
// before it is left. For other slots threads may need a barrier.
#ifndef SINTER_SRC_STITCH_SLOTS_H_
#define SINTER_SRC_STITCH_SLOTS_H_

#include <cstdint>
#include <vector>

#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

// Sets phase.hands.
void AssignSlots(const Chain& body, const StitchProgram& program, StitchPhase& phase, Pace* pace);

// By loop of the phase: whether a group's threads meet before it, so that values left earlier are
// complete and a reused slot has no more readers. `rows_meet`: they meet after every loop with row
// reductions anyway.
std::vector<bool> MeetsBefore(const StitchPhase& phase, bool rows_meet);

// The place of a handed-over value in its group's part of shared memory.
struct HandPlace {
  ValueId value = -1;
  DType dtype = DType::kF32;
  int64_t offset = 0, bytes = 0;
  std::vector<int64_t> strides;  // of the axes after the unit's, in elements
};
struct HandLayout {
  std::vector<std::vector<HandPlace>> phases;
  int64_t group_bytes = 0;
};
HandLayout LayOutHands(const Chain& body, const StitchProgram& program,
                       const StitchSchedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SLOTS_H_
