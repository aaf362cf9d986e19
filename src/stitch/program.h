// StitchProgram: the order in which one kernel computes its body, and what its threads share. A
// function of the body, the owner and the handed-over values; search costs it, codegen writes it.
//
// A unit is one index of the leading dims that the owner reduction keeps (or, over columns,
// reduces). Sub-roots (FusionStitching 4.2) are results that leave a thread: outputs and
// reductions. All other values are recomputed where they are read. The sub-roots of a unit are
// computed in loops over the unit's elements, level by level: a loop of level n needs row
// reductions of level n - 1. A column reduction needs all units, so its readers belong to a later
// phase, after a grid barrier.
#ifndef SINTER_SRC_STITCH_PROGRAM_H_
#define SINTER_SRC_STITCH_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/stitch/reduce_use.h"

namespace sinter {

struct StitchBudget;  // body_work.h

struct StitchRoot {
  // A scatter is stored by two roots: kScatter walks the rows that it writes, kStore those that it
  // leaves.
  enum Kind : uint8_t { kStore, kRow, kColumn, kSegment, kHand, kScatter } kind = kStore;
  ValueId value = -1;  // the stored or handed-over value, or the reduction
  int output = -1;     // kStore, kScatter: index of the body's output
  ValueId mean = -1;   // kColumn: the mean computed along with a second moment (phases.h)
  int64_t spread = 1;  // kStore: elements of the loop for each element stored, those of a segment
  std::vector<ValueId> reads = {};  // rows, segments and handed-over values of its unit, ascending
};

// Roots computed in one pass over equally many elements.
struct StitchLoop {
  int level = 0;
  int64_t elements = 1;   // of a unit; without units: of all, not counting M
  bool symbolic = false;  // without units: times M
  bool segments = false;  // in a phase where lanes hold segment results (segment.h)
  bool serial = false;    // lanes may share a thread's serial reductions (segment.h)
  int apart = -1;         // runs only where this output is not stored over its input; -1: always
  std::vector<StitchRoot> roots;
};

// A value that a unit's threads hand over (slots.h) in one phase.
struct StitchHand {
  ValueId value = -1;
  size_t made = 0, last = 0;  // the loop that leaves it, and the last loop that takes it
  int slot = 0;               // of the phase's shared memory; values use one slot in turn (slots.h)
  bool turned = false;        // some reader's lanes step from row to row, so rows are padded
};

// Units of a result without reductions: `columns` neighbouring elements of its last axis. Their
// numbers count `axis` fastest. axis -1: no such units.
struct UnitTile {
  int axis = -1;
  int64_t columns = 1;
};

// An input that a block may stage (staging.h): `wide` neighbouring units have neighbouring elements
// of it.
struct StagedInput {
  ValueId value = -1;
  int wide = 1;
  int64_t elements = 1;  // of a unit
};

// Reductions over the taps of windows that a thread may make for several results of a row at once
// (window_row.h). No reductions: none.
struct WindowRow {
  std::vector<ValueId> reductions;  // serial ones, whose results the loop reads where it stands
  std::vector<Dim> dims;            // of their results: [batch, p, q, channels]
  int64_t taps = 1;                 // in a row of a window, the most of all
  int64_t columns = 1;              // steps of pixels of x from result to result
  int64_t dilation = 1;             // and from tap to tap
  // Besides windows they read operands at the results' own pixels, where there are none behind the
  // last of a row: the results that are made at once must divide the row.
  bool divided = false;
};

// A result that the units of a phase read from memory, as an earlier one stored it (read_back.h).
struct StitchBack {
  ValueId value = -1;
  int output = -1;
};

struct StitchPhase {
  std::vector<StitchLoop> loops;  // over a unit's elements, ascending levels
  std::vector<StitchLoop> flat;   // over all elements; threads share nothing
  std::vector<StitchHand> hands;  // in the order of their loops
  std::vector<StitchBack> back;
};

struct StitchProgram {
  ValueId owner = -1;
  std::vector<ValueId> handed;  // values that units hand over, ascending; every step of a row is
  int64_t units = 1;            // times M when symbolic
  bool units_symbolic = false;
  bool whole = false;               // units are parts of a reduction over everything (phases.h)
  UnitTile tile;                    // owner: OwnerOfTile
  std::vector<Dim> tile_dims;       // of the result that is cut by `tile`
  std::vector<StagedInput> staged;  // that a schedule may stage
  WindowRow windows;                // that a schedule may make several results of at once
  std::vector<ReduceUse> uses;      // by op
  std::vector<StitchPhase> phases;  // a grid barrier between two
  int64_t visits = 0;               // of the walk that made the program (body_work.h)
};

// The value that a root's loop walks: the stored or handed-over value, or the operand of a
// reduction or of a step of rows; of a scatter the rows that it writes, or what it writes over.
ValueId WalkedValue(const Chain& body, const StitchRoot& root);
const std::vector<Dim>& DimsOfRoot(const Chain& body, const StitchRoot& root);
// Where a root stands at `element` of `unit`; `unit` below 0: in a flat loop. The error says why
// its dims cannot be cut into units.
absl::StatusOr<Position> PositionOfRoot(const Chain& body, const StitchProgram& program,
                                        const StitchRoot& root, IndexVar unit, IndexVar element,
                                        IndexSpace& space);

// `handed`: values that units hand over, ascending. `budget`: of the plan in the making; may be
// null. FAILED_PRECONDITION naming the op that cannot be computed so, or at which a bound of
// body_work.h is exceeded.
absl::StatusOr<StitchProgram> MakeStitchProgram(const Chain& body, ValueId owner,
                                                const std::vector<ValueId>& handed = {},
                                                StitchBudget* budget = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_PROGRAM_H_
