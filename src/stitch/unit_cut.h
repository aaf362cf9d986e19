// The position of a unit and of its elements in a value.
#ifndef SINTER_SRC_STITCH_UNIT_CUT_H_
#define SINTER_SRC_STITCH_UNIT_CUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/stitch/pull.h"

namespace sinter {

struct StitchProgram;

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

#endif  // SINTER_SRC_STITCH_UNIT_CUT_H_
