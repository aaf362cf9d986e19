// Where in a value a unit and its elements lie.
#ifndef SINTER_SRC_STITCH_UNIT_CUT_H_
#define SINTER_SRC_STITCH_UNIT_CUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/stitch/pull.h"

namespace sinter {

struct StitchProgram;

// Where the dims of a value are cut into unit and elements. A dim may lie across the cut.
struct UnitCut {
  std::vector<int64_t> unit_dims, element_dims;  // unit_dims[0] is 0 where it is M
  bool across = false;  // the last of unit_dims and the first of element_dims are one dim
};

// Why a value's dims cannot be cut is the message.
absl::StatusOr<UnitCut> CutUnits(const StitchProgram& program, const std::vector<Dim>& dims);
// The element of a value whose dims were cut: loop variables `unit` and `element`.
Position PositionIn(const UnitCut& cut, IndexVar unit, IndexVar element, IndexSpace& space);
// Of a value counted as a whole.
Position PositionIn(const std::vector<Dim>& dims, IndexVar element, IndexSpace& space);

// Whether element `at` of a row reduction is that of unit `unit`.
bool IsOfUnit(const Op& reduction, const Position& at, IndexVar unit, IndexSpace& space);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_UNIT_CUT_H_
