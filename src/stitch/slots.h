// Slots: which places of shared memory the handed-over values of a phase take turns in
// (FusionStitching 2018, section 3; 2020, section 4.4).
//
// A value takes the slot of one that no later pass takes, and not its own either. The dominance
// tree of the phase's sub-roots, from what leaves the phase towards what it reads, says which
// first: all readers of a value lead to one that dominates it, so they have met before it is left.
// Others may have to meet for it.
#ifndef SINTER_SRC_STITCH_SLOTS_H_
#define SINTER_SRC_STITCH_SLOTS_H_

#include <cstdint>
#include <vector>

#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

// Sets the phase's hands.
void AssignSlots(const Chain& body, const StitchProgram& program, StitchPhase& phase, Pace* pace);

// In front of which loops of the phase the threads of a group meet: so that what was left is there,
// and so that nobody reads what takes the place of it any more. `rows_meet`: they have met behind
// every loop that makes rows.
std::vector<bool> MeetsBefore(const StitchPhase& phase, bool rows_meet);

// Where a hand lies in its group's share of shared memory.
struct HandPlace {
  ValueId value = -1;
  DType dtype = DType::kF32;
  int64_t offset = 0, bytes = 0;
  std::vector<int64_t> strides;  // of its axes behind the unit's, in elements
};
struct HandLayout {
  std::vector<std::vector<HandPlace>> phases;
  int64_t group_bytes = 0;
};
HandLayout LayOutHands(const Chain& body, const StitchProgram& program,
                       const StitchSchedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SLOTS_H_
