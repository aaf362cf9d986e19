// How each reduction of a body is computed: along a unit's elements, over all units, or neither.
#ifndef SINTER_SRC_STITCH_REDUCE_USE_H_
#define SINTER_SRC_STITCH_REDUCE_USE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/stitch/pull.h"

namespace sinter {

struct StitchProgram;

// How a reduction (or a product) is computed.
enum class ReduceUse : uint8_t {
  kNone = 0,     // not a reduction
  kRow = 1,      // by the threads of a unit together
  kColumn = 2,   // over all units
  kSerial = 3,   // by each thread that reads it
  kSegment = 4,  // of a part of a unit, by neighbouring lanes (segment.h)
  kStep = 5,     // top_k, scan: of a row that is a unit, handed over, by its threads together
};

// Depends on the owner and the units of `program`.
ReduceUse UseOf(const Chain& body, const Op& op, const StitchProgram& program);

// Elements in one result of a reduction or product; 0 when M is among the reduced axes.
int64_t ReducedElements(const Chain& body, const Op& op);

// -1 (no units) first, but not with steps of rows, then the reductions and steps of rows that may
// own the units, in the order of the body. Op i of a body of n ops as owner n + i: it reduces all
// elements, and every unit has some of them.
std::vector<ValueId> OwnerCandidates(const Chain& body);

// Sets the units of `owner` in `program`; -1: none. INVALID_ARGUMENT where `owner` is no reduction,
// FAILED_PRECONDITION where it reduces neither the last nor the first axes.
absl::Status SetOwner(const Chain& body, ValueId owner, StitchProgram& program);

// Elements of a step's part of shared memory: its row, and in front of it what it makes of the row
// where that has another extent.
int64_t ResultsBeforeRow(const Op& step);
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

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_REDUCE_USE_H_
