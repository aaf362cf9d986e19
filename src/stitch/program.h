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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/stitch/index.h"

namespace sinter {

// How each reduction of a body is computed: along a unit's elements, over all units, or neither.

struct StitchProgram;

// How a reduction (or a product) is computed.
enum class ReduceUse : uint8_t {
  kNone = 0,     // not a reduction
  kRow = 1,      // by the threads of a unit together
  kColumn = 2,   // over all units
  kSerial = 3,   // by each thread that reads it
  kSegment = 4,  // of a part of a unit, by neighbouring lanes
  kStep = 5,     // top_k, scan: of a row that is a unit, handed over, by its threads together
};

// Depends on the owner and the units of `program`.
ReduceUse UseOf(const Chain& body, const Op& op, const StitchProgram& program);

// Elements in one result of a reduction or product; 0 when M is among the reduced axes.
int64_t ReducedElements(const Chain& body, const Op& op);

// Whether it has steps of rows.
bool HasSteps(const Chain& body);
// Whether an output shares an input's buffer.
bool SharesBuffers(const Chain& body);

// -1 (no units) first, but not with steps of rows, then the reductions and steps of rows that may
// own the units, in the order of the body. Op i of a body of n ops as owner n + i: it reduces all
// elements, and every unit has some of them.
std::vector<ValueId> OwnerCandidates(const Chain& body);

// Sets the units of `owner` in `program`; -1: none. INVALID_ARGUMENT if `owner` is not a reduction,
// FAILED_PRECONDITION where it reduces neither the last nor the first axes.
absl::Status SetOwner(const Chain& body, ValueId owner, StitchProgram& program);

// Elements of a step's part of shared memory: its row, and in front of it the results of a top_k
// with what finds them (words_before_keys of src/device/stitch/row_steps.cuh).
int64_t GroupsOfRow(const Op& top_k);  // into which it divides the row
int64_t WordsBeforeRow(const Chain& body, const Op& step);
int64_t SharedElementsOf(const Chain& body, const Op& step);

// The position of a unit and of its elements in a value.

// How a value's dims are cut into unit and element dims. A dim may lie across the cut.
struct UnitCut {
  std::vector<int64_t> unit_dims, element_dims;  // unit_dims[0] is 0 where it is M
  bool across = false;  // the last of unit_dims and the first of element_dims are one dim
  int axis = -1;        // of a tile: the last of unit_dims is this dim; the one before it and
                        // element_dims are the last dim
};

// The error message says why a value's dims cannot be cut.
absl::StatusOr<UnitCut> CutUnits(const StitchProgram& program, const std::vector<Dim>& dims);
// The element of a value with cut dims: loop variables `unit` and `element`.
Position PositionIn(const UnitCut& cut, IndexVar unit, IndexVar element, IndexSpace& space);
// The element of a value without units.
Position PositionIn(const std::vector<Dim>& dims, IndexVar element, IndexSpace& space);

// Whether element `at` of a row reduction belongs to unit `unit`.
bool IsOfUnit(const Op& reduction, const Position& at, IndexVar unit, IndexSpace& space);

struct StitchBudget;  // body_work.h

struct StitchRoot {
  // A scatter is stored by two roots: kScatter walks the rows that it writes, kStore those that it
  // leaves.
  enum Kind : uint8_t { kStore, kRow, kColumn, kSegment, kHand, kScatter } kind = kStore;
  ValueId value = -1;  // the stored or handed-over value, or the reduction
  int output = -1;     // kStore, kScatter: index of the body's output
  ValueId mean = -1;   // kColumn: the mean computed along with a second moment (phases.h)
  int64_t spread = 1;  // kStore: elements of the loop for each element stored, as many as a segment
                       // has
  std::vector<ValueId> reads = {};  // rows, segments and handed-over values of its unit, ascending
};

// Roots computed in one pass over equally many elements.
struct StitchLoop {
  int level = 0;
  int64_t elements = 1;   // of a unit; without units: of all, not counting M
  bool symbolic = false;  // without units: times M
  bool segments = false;  // in a phase where lanes hold segment results
  bool serial = false;    // lanes may share a thread's serial reductions
  int apart = -1;         // runs only where this output is not stored over its input; -1: always
  std::vector<StitchRoot> roots;
};

// A value that a unit's threads hand over (phases.h) in one phase.
struct StitchHand {
  ValueId value = -1;
  size_t made = 0, last = 0;  // the loop that leaves it, and the last loop that takes it
  int slot = 0;         // of the phase's shared memory; values use one slot in turn (phases.h)
  bool turned = false;  // some reader's lanes step from row to row, so rows are padded
};

// Units of a result without reductions: `columns` neighbouring elements of its last axis. Their
// numbers count `axis` fastest. axis -1: no such units.
struct UnitTile {
  int axis = -1;
  int64_t columns = 1;
};

// An input that a block may stage (shared_reads.h): `wide` neighbouring units have neighbouring
// elements of it.
struct StagedInput {
  ValueId value = -1;
  int wide = 1;
  int64_t elements = 1;  // of a unit
};

// Reductions over the taps of windows that a thread may make for several results of a row at once
// (shared_reads.h). No reductions: none.
struct WindowRow {
  std::vector<ValueId> reductions;  // serial ones, whose results the loop reads where it stands
  std::vector<Dim> dims;            // of their results: [batch, p, q, channels]
  int64_t taps = 1;                 // in a row of a window, the most of all
  int64_t columns = 1;              // steps of pixels of x from result to result
  int64_t dilation = 1;             // and from tap to tap
  // Besides windows they read operands at the results' own pixels. Past the last pixel of a row
  // there are none: the results that are made at once must divide the row.
  bool divided = false;
};

// A result that the units of a phase read from memory, as an earlier one stored it.
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

// Whether a reduction's or a step's result is made by threads together: readers do not compute it.
inline bool IsJoined(const StitchProgram& program, ValueId id) {
  const ReduceUse use = program.uses[static_cast<size_t>(id)];
  return use != ReduceUse::kNone && use != ReduceUse::kSerial;
}

// Calls visit(loop, phase) for the loops over units' elements, visit(loop, null) for flat loops: of
// one phase after another.
template <typename Program, typename Visitor>
void ForEachLoop(Program& program, const Visitor& visit) {
  for (auto& phase : program.phases) {
    for (auto& loop : phase.loops) visit(loop, &phase);
    for (auto& loop : phase.flat) visit(loop, static_cast<const StitchPhase*>(nullptr));
  }
}

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
// body_work.h is exceeded. A body and its copies keep the programs that were made of them.
absl::StatusOr<StitchProgram> MakeStitchProgram(const Chain& body, ValueId owner,
                                                const std::vector<ValueId>& handed = {},
                                                StitchBudget* budget = nullptr);
int64_t MadeStitchPrograms();  // by walks of bodies in this process, for tests

// Whether the result at `at` of reduction `id` is there: of a column, of the row of unit `unit` or
// of the segment at `element`. `unit` below 0: the reader has no unit.
bool IsThere(const Chain& body, const StitchProgram& program, ValueId id, const Position& at,
             IndexVar unit, IndexVar element, IndexSpace& space);

// Segments: rows inside a unit. A reduction of the last axes that keeps more than the units' dims
// has several segments in a unit. Neighbouring lanes join each segment and keep its result in
// registers for later passes over the same elements (warp composition below a unit).

// Whether reduction `op`, which is not a row of `program`'s units, may be joined in segments: of 2
// to 128 elements, a power of two; not where outputs share inputs' buffers.
bool HasSegments(const Chain& body, const StitchProgram& program, const Op& op);

// Whether element `at` of a segment reduction belongs to the segment of the current `unit` and
// `element`.
bool IsOfSegment(const Chain& body, const StitchProgram& program, const Op& reduction,
                 const Position& at, IndexVar unit, IndexVar element, IndexSpace& space);

struct StitchSchedule;  // schedule.h

// Lanes that join a segment where a thread takes `vector` elements at once; 0: impossible.
int SegmentLanes(const Chain& body, const StitchSchedule& schedule, const Op& op, int vector);

// Whether lanes can join every segment of the program.
bool SegmentsFit(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule);

// Serial: reductions and products that each reading thread (or its few lanes, see schedule.h's
// split) computes for itself.

// Most elements (or factors) of a serial reduction.
constexpr int64_t kMostSerial = 4096;

// Whether a product is fine-grained (FusionStitching 2019), so that a stitched kernel may compute
// it: batch dims in both operands, at most kMostSerial factors an element and 2^20 multiply-adds a
// batch. Others have kernels of their own.
bool IsFineGrained(const Chain& body, const Op& matmul);

// Sets StitchLoop::serial: lanes may share an element's serial reductions. Not where a thread must
// own its elements: with column reductions, and where outputs share inputs' buffers.
void MarkSerial(const Chain& body, StitchProgram& program);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_PROGRAM_H_
