// StitchProgram: what one kernel computes, in which order, with what shared between which threads.
// A function of the body, the owner and what is handed over alone; search costs it, codegen spells
// it out.
//
// A unit is one index of the leading dims that the owner reduction keeps (or, over columns,
// reduces). Sub-roots (FusionStitching 4.2) are results that leave a thread: outputs and
// reductions. Everything between them is recomputed where it is read. Sub-roots of a unit are
// computed in loops over the unit's elements, level by level: a loop of level n needs row
// reductions of level n - 1. A column reduction needs all units: what reads it belongs to a later
// phase, behind a barrier of the grid.
#ifndef SINTER_SRC_STITCH_PROGRAM_H_
#define SINTER_SRC_STITCH_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/stitch/reduce_use.h"
#include "src/stitch/unit_cut.h"

namespace sinter {

struct StitchBudget;  // body_work.h

struct StitchRoot {
  enum Kind : uint8_t { kStore, kRow, kColumn, kSegment, kHand } kind = kStore;
  ValueId value = -1;  // what is stored or handed over, or the reduction
  int output = -1;     // kStore: index of the body's output
  ValueId mean = -1;   // kColumn: made along with it, where it is the moment about it (moments.h)
  std::vector<ValueId> reads = {};  // rows, segments, handed-over values of its unit, ascending
};

// Roots that are computed in one pass over as many elements.
struct StitchLoop {
  int level = 0;
  int64_t elements = 1;   // of a unit; without units: of all, not counting M
  bool symbolic = false;  // without units: times M
  bool segments = false;  // in a phase where lanes hold results of parts of units (segment.h)
  bool serial = false;    // lanes may share what a thread would reduce alone (serial.h)
  std::vector<StitchRoot> roots;
};

// A value that the threads of a unit hand over to one another (hand_over.h) in one phase.
struct StitchHand {
  ValueId value = -1;
  size_t made = 0, last = 0;  // the loops that leave it and that take it last
  int slot = 0;               // of the phase's shared memory: values take turns in one (slots.h)
  bool turned = false;        // some reader's lanes step from row to row
};

struct StitchPhase {
  std::vector<StitchLoop> loops;  // over a unit's elements, ascending levels
  std::vector<StitchLoop> flat;   // over all elements, nothing shared
  std::vector<StitchHand> hands;  // in the order of the loops that leave them
};

struct StitchProgram {
  ValueId owner = -1;
  std::vector<ValueId> handed;  // values of units, ascending
  int64_t units = 1;            // times M when symbolic
  bool units_symbolic = false;
  std::vector<ReduceUse> uses;      // by op
  std::vector<StitchPhase> phases;  // a grid barrier between two
  int64_t visits = 0;               // of the walk that made it (body_work.h)
};

// What a root's loop walks: the stored or handed-over value, or a reduction's operand.
ValueId WalkedValue(const Chain& body, const StitchRoot& root);
const std::vector<Dim>& DimsOfRoot(const Chain& body, const StitchRoot& root);

// `handed`: values that units hand over, ascending. `budget`: of the plan that it is made for; may
// be null. FAILED_PRECONDITION naming the op that cannot be computed so, or with which a bound of
// body_work.h is passed.
absl::StatusOr<StitchProgram> MakeStitchProgram(const Chain& body, ValueId owner,
                                                const std::vector<ValueId>& handed = {},
                                                StitchBudget* budget = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_PROGRAM_H_
