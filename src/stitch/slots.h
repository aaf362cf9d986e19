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
#include <optional>
#include <vector>

#include "src/stitch/phases.h"
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

// Dominators of a flow graph.

// Immediate dominators, after Cooper, Harvey and Kennedy. Node 0 is the entry and dominates itself;
// successors[n] are the nodes that n leads to. -1: unreachable.
std::vector<int> ImmediateDominators(const std::vector<std::vector<int>>& successors);

// Whether every path from the entry to `node` passes `over`.
bool Dominates(const std::vector<int>& immediate, int over, int node);

// Hand-over (block composition): a unit's threads compute a value once, leave it in shared memory
// and read it at any index of the unit, instead of recomputing it where it is read.

// The position of an element along the axes after its unit's. None: the element is of another unit,
// or cannot be shown to be of unit `unit`.
std::optional<Position> PlaceInUnit(const StitchProgram& program, const std::vector<Dim>& dims,
                                    const Position& at, IndexVar unit, IndexSpace& space);

enum class HandRead {
  kNone,     // the value is not handed over, or the reader has no unit
  kOwn,      // at the reader's own element, which the same thread computes
  kTaken,    // elsewhere in the unit
  kOutside,  // outside the unit
};
HandRead ReadOfHanded(const Chain& body, const StitchProgram& program, ValueId id,
                      const Position& at, const RootLoop& reader, IndexSpace& space);

// Whether a value can be handed over in units of `program`: computed element by element or serially
// (or an input), with equally many elements in every unit.
bool MayBeHanded(const Chain& body, const StitchProgram& program, ValueId id);

// Elements of a value in one unit.
int64_t ElementsInUnit(const StitchProgram& program, const std::vector<Dim>& dims);

// The type of a handed-over value in shared memory: its type in arithmetic, or its stored type
// where that loses nothing.
DType HandedType(const Chain& body, ValueId id);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_SLOTS_H_
