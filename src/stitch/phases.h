// The phases of a program: the loops of its roots, their levels, and the grid barriers between
// them; the slots of the values that a phase hands over.
#ifndef SINTER_SRC_STITCH_PHASES_H_
#define SINTER_SRC_STITCH_PHASES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/stitch/body_work.h"
#include "src/stitch/program.h"
#include "src/stitch/schedule.h"

namespace sinter {

// Precondition: owner, uses and handed-over values of `program` are set. Stores in place are
// settled (below). FAILED_PRECONDITION naming the op that cannot be computed so, or at which a
// bound of body_work.h is exceeded. `budget` may be null.
absl::Status MakePhases(const Chain& body, StitchProgram& program, StitchBudget* budget);

// Moments: a second moment of columns about the mean of the same elements (a variance) is computed
// in one pass with that mean, instead of in a later phase.

// The column mean for which column reduction `id` is the second moment: `id` sums (or averages) the
// squares of x - mean(x), element by element. -1: none.
ValueId MeanOfMoment(const Chain& body, const StitchProgram& program, ValueId id);

// Needs: the sub-roots that a root reads, found by following it to the inputs through all
// recomputed values.

struct Needs {
  std::set<ValueId> subs;   // of the same unit: row reductions, segments, handed-over values
  std::set<ValueId> own;    // handed-over values that are read at the root's own element
  int phase = 0;            // the first phase in which all columns that it reads are ready
  ValueId made_again = -1;  // a segment that lanes of other elements have joined; -1: none
  // The root's element of the value that it walks, and where outputs share inputs' buffers the
  // elements of inputs that it reads itself: row-major indices.
  Index place;
  std::map<ValueId, std::set<Index>> reads;
};
using NeedsOfRoot = std::function<const Needs&(const StitchRoot&)>;

// Loop variables at a root, and its loop's elements; unit -1: the root has no unit.
struct RootLoop {
  IndexVar unit = -1, element = -1;
  int64_t elements = 1;
};

// `columns`: the phase of each column reduction. FAILED_PRECONDITION naming the op that the root
// cannot reach, or at which `work` exceeds a bound.
absl::StatusOr<Needs> NeedsOf(const Chain& body, const StitchProgram& program,
                              const StitchRoot& root, const Position& at, const RootLoop& loop,
                              const std::map<ValueId, int>& columns, IndexSpace& space,
                              BodyWork& work);

// FAILED_PRECONDITION: "op 3 (matmul): why".
absl::Status RefuseOp(ValueId id, const Op& op, absl::string_view why);

// In place: what outputs that share an input's buffer require of a kernel's program.

// Whether an output is a scatter over the input whose buffer it may share: what it leaves is there
// already where it does.
bool WritesInPlace(const Chain& chain, const ChainOutput& output);
// The same of any output of `value`.
bool WritesInPlace(const Chain& chain, ValueId value);

// An output in an input's buffer may store an element once that element of the input is no longer
// read. Any thread may read it in an earlier phase; in the store's own phase only the storing
// thread may, before the store. Moves such stores to the last pass that reads their input, after
// the roots of that pass that read it. A scatter stores anywhere: nothing of its phase or a later
// one may read its input, but what it leaves. FAILED_PRECONDITION naming the op whose store cannot
// wait.
absl::Status SettleInPlace(const Chain& body, StitchProgram& program, const NeedsOfRoot& needs_of);

// Results that the units of an earlier phase store and those of a later one read from memory,
// instead of computing them again from inputs that are more bytes.

// Sets `back` of the phases. A thread reads what it has stored itself: the loops have equally many
// elements, and between the result and what the later phase makes of it lie only ops that compute
// element by element.
void ReadBack(const Chain& body, StitchProgram& program);

// What `phase` reads back as `value`; null: nothing.
const StitchBack* BackOf(const StitchPhase& phase, ValueId value);
// Whether a phase after number `phase` reads back the values that phase `phase` stores as `output`.
bool IsReadBack(const StitchProgram& program, size_t phase, int output);

// Slots: the places of shared memory that a phase's handed-over values use in turn (FusionStitching
// 2018, section 3; 2020, section 4.4).
//
// A value takes the slot of one that neither its own pass nor a later one takes. The dominance tree
// of the phase's sub-roots, from what leaves the phase to what it reads, gives the order of choice:
// if the value dominates the old one, all readers of the old one lead to it, so they have met
// before it is left. For other slots threads may need a barrier.

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

#endif  // SINTER_SRC_STITCH_PHASES_H_
