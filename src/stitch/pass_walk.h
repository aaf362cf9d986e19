// PassWalk: the values that one pass through a unit's elements computes and reads, and how often.
#ifndef SINTER_SRC_STITCH_PASS_WALK_H_
#define SINTER_SRC_STITCH_PASS_WALK_H_

#include <map>
#include <utility>

#include "src/base/keep_going.h"
#include "src/stitch/program.h"

namespace sinter {

// How often a pass computes an element of a value, or takes it from shared memory.
struct PassTouch {
  double trips = 0;      // in a unit, over all threads
  bool taken = false;    // handed over by an earlier pass
  Position place;        // when taken: the place in the unit's part of the value
  bool in_loop = false;  // inside a serial reduction
};

// By value and element, as in generated source: a value that several results share counts once.
struct PassWalk {
  IndexSpace space;
  IndexVar unit = -1, element = -1;
  std::map<std::pair<ValueId, Position>, PassTouch> touches;
};

// `loop` is one of the phase's unit loops; its threads take `width` elements at once. `pace` (may
// be null) takes one step a visit.
PassWalk WalkPass(const Chain& body, const StitchProgram& program, const StitchPhase& phase,
                  size_t loop, int width, Pace* pace = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_PASS_WALK_H_
