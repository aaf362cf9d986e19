#include "src/stitch/hand_over.h"

#include <algorithm>

namespace sinter {
namespace {

bool IsHanded(const StitchProgram& program, ValueId id) {
  return std::binary_search(program.handed.begin(), program.handed.end(), id);
}

// Whether the value is read at the element where the reader stands, which the same thread computes.
bool IsOwn(const Chain& body, const StitchProgram& program, ValueId id, const Position& at,
           const RootLoop& reader, IndexSpace& space) {
  const std::vector<Dim>& dims = body.op(id).type.dims;
  if (reader.elements != ElementsInUnit(program, dims)) return false;
  const absl::StatusOr<UnitCut> cut = CutUnits(program, dims);
  if (!cut.ok()) return false;
  const Position own = PositionIn(*cut, reader.unit, reader.element, space);
  return space.Canonical(LinearIndex(dims, at)) == space.Canonical(LinearIndex(dims, own));
}

}  // namespace

// Compares axis by axis, not by a linear index: beyond a concat's border an axis may be negative
// (nothing is read there), while the unit's axes are still known.
std::optional<Position> PlaceInUnit(const StitchProgram& program, const std::vector<Dim>& dims,
                                    const Position& at, IndexVar unit, IndexSpace& space) {
  const absl::StatusOr<UnitCut> cut = CutUnits(program, dims);
  if (!cut.ok()) return std::nullopt;
  const size_t units = cut->unit_dims.size();
  Position place(at.begin() + static_cast<std::ptrdiff_t>(units), at.end());
  Position of_unit(at.begin(), at.begin() + static_cast<std::ptrdiff_t>(units));
  if (cut->across) {
    const int64_t inner = cut->element_dims[0];
    place.insert(place.begin(), space.Remainder(of_unit.back(), inner));
    of_unit.back() = space.Quotient(of_unit.back(), inner);
  }
  Index linear;
  for (size_t i = 0; i < units; ++i) {
    linear = linear.Times(cut->unit_dims[i]).Plus(of_unit[i]);
  }
  linear = space.Canonical(linear);
  if (linear == Index::Of(unit) || (linear == Index() && space.var(unit).extent == 1)) return place;
  return std::nullopt;
}

HandRead ReadOfHanded(const Chain& body, const StitchProgram& program, ValueId id,
                      const Position& at, const RootLoop& reader, IndexSpace& space) {
  if (reader.unit < 0 || !IsHanded(program, id)) return HandRead::kNone;
  if (IsOwn(body, program, id, at, reader, space)) return HandRead::kOwn;
  const bool inside =
      PlaceInUnit(program, body.op(id).type.dims, at, reader.unit, space).has_value();
  return inside ? HandRead::kTaken : HandRead::kOutside;
}

bool MayBeHanded(const Chain& body, const StitchProgram& program, ValueId id) {
  const Op& op = body.op(id);
  const ReduceUse use = program.uses[static_cast<size_t>(id)];
  if (use != ReduceUse::kNone && use != ReduceUse::kSerial) return false;
  if (op.kind == OpKind::kScalar || op.kind == OpKind::kIota) return false;
  if (op.kind == OpKind::kScatter) return false;
  return program.owner >= 0 && program.tile.axis < 0 && CutUnits(program, op.type.dims).ok();
}

int64_t ElementsInUnit(const StitchProgram& program, const std::vector<Dim>& dims) {
  int64_t elements = 1;
  for (const Dim& dim : dims) elements *= dim.symbolic ? 1 : dim.value;
  return elements / program.units;
}

DType HandedType(const Chain& body, ValueId id) {
  const Op& op = body.op(id);
  const DType own = op.type.dtype;
  const bool stored_so = op.kind == OpKind::kInput || op.kind == OpKind::kCast;
  return stored_so || !IsFloat(own) ? own : DType::kF32;
}

}  // namespace sinter
