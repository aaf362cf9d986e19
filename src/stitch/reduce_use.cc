#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/stitch/phases.h"
#include "src/stitch/program.h"
#include "src/stitch/shared_reads.h"
#include "src/stitch/sizes.h"

namespace sinter {

namespace {

bool Contains(const std::vector<int32_t>& axes, size_t axis) {
  return std::find(axes.begin(), axes.end(), static_cast<int32_t>(axis)) != axes.end();
}

// Whether the reduced axes are the last ones. Axes of extent 1 count as either.
bool ReducesTail(const Op& op, const std::vector<Dim>& dims) {
  bool reduced = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim::Constant(1)) continue;
    if (reduced && !Contains(op.axes, i)) return false;
    reduced |= Contains(op.axes, i);
  }
  return reduced;
}

bool ReducesHead(const Op& op, const std::vector<Dim>& dims) {
  bool kept = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim::Constant(1)) continue;
    if (kept && Contains(op.axes, i)) return false;
    kept |= !Contains(op.axes, i);
  }
  return kept;
}

// Whether it keeps no axis: one result of all elements.
bool ReducesAll(const Op& op, const std::vector<Dim>& dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != Dim::Constant(1) && !Contains(op.axes, i)) return false;
  }
  return true;
}

struct Span {
  int64_t elements = 1;
  bool symbolic = false;
};

// The span of the axes that are reduced (or kept).
Span SpanOf(const Op& op, const std::vector<Dim>& dims, bool reduced) {
  Span span;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (Contains(op.axes, i) != reduced) continue;
    span.symbolic |= dims[i].symbolic;
    if (!dims[i].symbolic) span.elements *= dims[i].value;
  }
  return span;
}

// All axes but the last.
Span RowsOf(const Op& op) {
  const std::vector<Dim> rows(op.type.dims.begin(), op.type.dims.end() - 1);
  return {ElementsPerM(rows), SymbolicAxis(rows) >= 0};
}

// Neighbouring elements of a unit that has a part of a whole reduction: as many as a thread reads
// at once, and as the last axis allows.
constexpr int64_t kPartOfWhole = 8;
int64_t PartOfWhole(const std::vector<Dim>& dims) {
  int64_t part = kPartOfWhole;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == Dim::Constant(1)) continue;
    while ((dims[i].symbolic ? 1 : dims[i].value) % part != 0) part /= 2;
    return part;
  }
  return 1;
}

// The bound of a whole reduction without M: above it units of all blocks may share it.
constexpr int64_t kMostOfOneUnit = 1 << 15;

// The units that a reduction or a step of rows owns, as parts of all elements where it is `whole`.
// None: it owns no units.
std::optional<Span> UnitsOf(const Chain& body, const Op& op, bool whole) {
  if (TakesRow(op) && !whole) return RowsOf(op);
  if (op.kind != OpKind::kReduce) return std::nullopt;
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  const bool tail = !whole && ReducesTail(op, dims);
  if (whole ? !ReducesAll(op, dims) : !tail && !ReducesHead(op, dims)) return std::nullopt;
  Span units = SpanOf(op, dims, !tail);
  if (whole) units.elements /= PartOfWhole(dims);
  return units;
}

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

ReduceUse UseOf(const Chain& body, const Op& op, const StitchProgram& program) {
  if (op.kind == OpKind::kMatmul) return ReduceUse::kSerial;
  if (TakesRow(op)) return ReduceUse::kStep;
  if (op.kind != OpKind::kReduce) return ReduceUse::kNone;
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  const auto is_units = [&](const Span& span) {
    return program.owner >= 0 && span.elements == program.units &&
           span.symbolic == program.units_symbolic;
  };
  const std::optional<Span> parts = program.whole ? UnitsOf(body, op, true) : std::nullopt;
  if (parts.has_value() && is_units(*parts)) return ReduceUse::kColumn;
  if (ReducesTail(op, dims) && is_units(SpanOf(op, dims, false))) return ReduceUse::kRow;
  if (ReducesHead(op, dims) && is_units(SpanOf(op, dims, true))) return ReduceUse::kColumn;
  if (program.owner >= 0 && HasSegments(body, program, op)) return ReduceUse::kSegment;
  return ReduceUse::kSerial;
}

int64_t ReducedElements(const Chain& body, const Op& op) {
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  if (op.kind == OpKind::kMatmul) {
    const Dim k = dims[dims.size() - (op.transpose_a ? 2 : 1)];
    return k.symbolic ? 0 : k.value;
  }
  const Span span = SpanOf(op, dims, true);
  return span.symbolic ? 0 : span.elements;
}

bool HasSteps(const Chain& body) {
  return std::any_of(body.ops().begin(), body.ops().end(), TakesRow);
}

bool SharesBuffers(const Chain& body) {
  return std::any_of(body.outputs().begin(), body.outputs().end(),
                     [](const ChainOutput& output) { return output.alias_input >= 0; });
}

std::vector<ValueId> OwnerCandidates(const Chain& body) {
  std::vector<ValueId> owners;
  if (!HasSteps(body)) owners.push_back(-1);
  std::set<std::pair<int64_t, bool>> seen, shared;
  const auto count = static_cast<ValueId>(body.ops().size());
  for (size_t id = 0; id < body.ops().size(); ++id) {
    const Op& op = body.op(static_cast<ValueId>(id));
    if (op.kind == OpKind::kReduce) {
      const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
      const Span all = SpanOf(op, dims, true);
      const std::optional<Span> parts = UnitsOf(body, op, true);
      if (parts.has_value() && (all.symbolic || all.elements > kMostOfOneUnit) &&
          shared.insert({parts->elements, parts->symbolic}).second) {
        owners.push_back(count + static_cast<ValueId>(id));
      }
      if (all.symbolic && ReducesTail(op, dims)) continue;
    }
    const std::optional<Span> units = UnitsOf(body, op, false);
    if (units.has_value() && seen.insert({units->elements, units->symbolic}).second) {
      owners.push_back(static_cast<ValueId>(id));
    }
  }
  return owners;
}

absl::Status SetOwner(const Chain& body, ValueId owner, StitchProgram& program) {
  program.owner = owner;
  if (owner < 0) return absl::OkStatus();
  const auto count = static_cast<ValueId>(body.ops().size());
  const UnitTile tile = TileOfOwner(owner, body.ops().size());
  if (tile.axis >= 0) return SetTile(body, tile, program);
  program.whole = owner >= count && owner < 2 * count;
  if (program.whole) owner -= count;
  if (static_cast<size_t>(owner) >= body.ops().size()) {
    return Invalid("owner ", owner, " is not a reduction");
  }
  const Op& op = body.op(owner);
  if (op.kind != OpKind::kReduce && (program.whole || !TakesRow(op))) {
    return Invalid("owner ", owner, " is not a reduction");
  }
  const std::optional<Span> units = UnitsOf(body, op, program.whole);
  if (!units.has_value()) {
    return RefuseOp(owner, op,
                    program.whole ? "keeps an axis"
                                  : "reduces axes that are neither the last nor the first ones");
  }
  program.units = units->elements;
  program.units_symbolic = units->symbolic;
  return absl::OkStatus();
}

int64_t GroupsOfRow(const Op& step) {
  int64_t groups = 32;
  while (groups < 2 * step.type.dims.back().value) groups *= 2;
  return groups;
}

int64_t WordsBeforeRow(const Chain& body, const Op& step) {
  if (step.kind != OpKind::kTopK) return 0;
  constexpr int64_t kWidest = 8;  // elements of a vector, so that those of the row stay aligned
  const int64_t count = body.op(step.operands[0]).type.dims.back().value;
  const int64_t taken = step.type.dims.back().value, results = RoundUp(taken, kWidest);
  if (taken == 1) return results;
  constexpr int64_t kCounters = 8, kHalves = 2;
  return results + 2 * GroupsOfRow(step) + kCounters +
         RoundUp(count + count / 4 + 64, kHalves * kWidest) / kHalves;
}

int64_t SharedElementsOf(const Chain& body, const Op& step) {
  return WordsBeforeRow(body, step) + body.op(step.operands[0]).type.dims.back().value;
}

absl::StatusOr<UnitCut> CutUnits(const StitchProgram& program, const std::vector<Dim>& dims) {
  UnitCut cut;
  const auto refuse = [&] {
    return FailedPrecondition(ToString(dims), " is not ", program.units,
                              program.units_symbolic ? "*M" : "", " units");
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

namespace {

constexpr int kUnitWarp = 32;
constexpr int64_t kMostOfSegment = 128;  // words of a warp

constexpr int64_t kMostOfBatch = 1 << 20;  // multiply-adds in one batch

bool ReachesSerial(const Chain& body, const StitchProgram& program, ValueId id,
                   std::set<ValueId>& seen) {
  if (!seen.insert(id).second) return false;
  const ReduceUse use = program.uses[static_cast<size_t>(id)];
  if (use == ReduceUse::kSerial) return true;
  if (use != ReduceUse::kNone) return false;
  const std::vector<ValueId>& operands = body.op(id).operands;
  return std::any_of(operands.begin(), operands.end(),
                     [&](ValueId operand) { return ReachesSerial(body, program, operand, seen); });
}

bool IsSerial(const Chain& body, const StitchProgram& program, const StitchLoop& loop) {
  bool serial = false;
  std::set<ValueId> seen;
  for (const StitchRoot& root : loop.roots) {
    if (root.kind == StitchRoot::kColumn) return false;
    serial |= ReachesSerial(body, program, WalkedValue(body, root), seen);
  }
  return serial;
}

}  // namespace

bool HasSegments(const Chain& body, const StitchProgram& program, const Op& op) {
  if (SharesBuffers(body)) return false;
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  const int64_t count = ReducedElements(body, op);
  const bool power = count > 1 && (count & (count - 1)) == 0;
  return ReducesTail(op, dims) && power && count <= kMostOfSegment &&
         CutUnits(program, op.type.dims).ok();
}

bool IsOfSegment(const Chain& body, const StitchProgram& program, const Op& reduction,
                 const Position& at, IndexVar unit, IndexVar element, IndexSpace& space) {
  const int64_t results = ElementsPerM(reduction.type.dims);
  Index own = space.Quotient(Index::Of(element), ReducedElements(body, reduction));
  if (space.var(unit).extent != 1) own = own.Plus(Index::Of(unit).Times(results / program.units));
  return space.Canonical(LinearIndex(reduction.type.dims, at)) == space.Canonical(own);
}

bool IsThere(const Chain& body, const StitchProgram& program, ValueId id, const Position& at,
             IndexVar unit, IndexVar element, IndexSpace& space) {
  const ReduceUse use = program.uses[static_cast<size_t>(id)];
  if (use == ReduceUse::kColumn) return true;
  if (unit < 0) return false;
  const Op& op = body.op(id);
  if (use == ReduceUse::kRow) return IsOfUnit(op, at, unit, space);
  return use == ReduceUse::kSegment && IsOfSegment(body, program, op, at, unit, element, space);
}

int SegmentLanes(const Chain& body, const StitchSchedule& schedule, const Op& op, int vector) {
  const int64_t count = ReducedElements(body, op);
  const int64_t lanes = count / vector;
  const bool fits = count % vector == 0 && lanes <= std::min(kUnitWarp, schedule.unit_threads);
  return fits ? static_cast<int>(lanes) : 0;
}

bool SegmentsFit(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule) {
  bool fit = true;
  ForEachLoop(program, [&](const StitchLoop& loop, const StitchPhase*) {
    const int vector = LoopVector(body, schedule, loop);
    for (const StitchRoot& root : loop.roots) {
      if (root.kind != StitchRoot::kSegment) continue;
      fit &= SegmentLanes(body, schedule, body.op(root.value), vector) > 0;
    }
  });
  return fit;
}

bool IsFineGrained(const Chain& body, const Op& matmul) {
  constexpr size_t kMatrix = 2;
  for (const ValueId operand : matmul.operands) {
    if (body.op(operand).type.dims.size() <= kMatrix) return false;
  }
  const int64_t factors = ReducedElements(body, matmul);
  const Dim rows = matmul.type.dims[matmul.type.dims.size() - kMatrix];
  const Dim columns = matmul.type.dims.back();
  if (factors < 1 || factors > kMostSerial || rows.symbolic || columns.symbolic) return false;
  return rows.value * factors <= kMostOfBatch / columns.value;
}

void MarkSerial(const Chain& body, StitchProgram& program) {
  if (SharesBuffers(body)) return;
  ForEachLoop(program, [&](StitchLoop& loop, const StitchPhase*) {
    loop.serial = IsSerial(body, program, loop);
  });
}

}  // namespace sinter
