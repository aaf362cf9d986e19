#include "src/stitch/unit_cut.h"

#include "absl/strings/str_cat.h"
#include "src/stitch/program.h"

namespace sinter {

namespace {

UnitCut CutTile(const UnitTile& tile, const std::vector<Dim>& dims) {
  UnitCut cut;
  cut.axis = tile.axis;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    if (static_cast<int>(i) != tile.axis)
      cut.unit_dims.push_back(dims[i].symbolic ? 0 : dims[i].value);
  }
  cut.unit_dims.push_back(dims.back().value / tile.columns);
  cut.unit_dims.push_back(dims[static_cast<size_t>(tile.axis)].value);
  cut.element_dims = {tile.columns};
  return cut;
}

}  // namespace

absl::StatusOr<UnitCut> CutUnits(const StitchProgram& program, const std::vector<Dim>& dims) {
  UnitCut cut;
  const auto refuse = [&] {
    return absl::FailedPreconditionError(absl::StrCat(
        ToString(dims), " is not ", program.units, program.units_symbolic ? "*M" : "", " units"));
  };
  if (program.tile.axis >= 0) {
    if (dims != program.tile_dims) return refuse();
    return CutTile(program.tile, dims);
  }
  int64_t left = program.units;
  size_t axis = 0;
  if (program.units_symbolic) {
    if (dims.empty() || !dims[0].symbolic) return refuse();
    cut.unit_dims.push_back(0);
    axis = 1;
  } else if (!dims.empty() && dims[0].symbolic) {
    return refuse();
  }
  for (; left > 1; ++axis) {
    if (axis == dims.size()) return refuse();
    const int64_t extent = dims[axis].value;
    if (left % extent == 0) {
      cut.unit_dims.push_back(extent);
      left /= extent;
    } else if (extent % left == 0) {
      cut.unit_dims.push_back(left);
      cut.element_dims.push_back(extent / left);
      cut.across = true;
      left = 1;
    } else {
      return refuse();
    }
  }
  for (; axis < dims.size(); ++axis) cut.element_dims.push_back(dims[axis].value);
  return cut;
}

Position PositionIn(const UnitCut& cut, IndexVar unit, IndexVar element, IndexSpace& space) {
  Position at = space.Box(unit, cut.unit_dims);
  Position inside = space.Box(element, cut.element_dims);
  if (cut.axis >= 0) {
    const Index turned = at.back();
    at.pop_back();
    at.back() = at.back().Times(cut.element_dims[0]).Plus(inside[0]);
    at.insert(at.begin() + cut.axis, turned);
    return at;
  }
  if (cut.across) {
    at.back() = at.back().Times(cut.element_dims[0]).Plus(inside[0]);
    inside.erase(inside.begin());
  }
  at.insert(at.end(), inside.begin(), inside.end());
  return at;
}

Position PositionIn(const std::vector<Dim>& dims, IndexVar element, IndexSpace& space) {
  std::vector<int64_t> extents;
  for (const Dim& dim : dims) extents.push_back(dim.symbolic ? 0 : dim.value);
  return space.Box(element, extents);
}

bool IsOfUnit(const Op& reduction, const Position& at, IndexVar unit, IndexSpace& space) {
  const Index linear = space.Canonical(LinearIndex(reduction.type.dims, at));
  return linear == Index::Of(unit) || (linear == Index() && space.var(unit).extent == 1);
}

}  // namespace sinter
