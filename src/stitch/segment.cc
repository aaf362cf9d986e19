#include "src/stitch/segment.h"

#include <algorithm>
#include <set>

#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr int kUnitWarp = 32;
constexpr int64_t kMostOfSegment = 128;  // words of a warp

bool IsReduced(const Op& op, size_t axis) {
  return std::find(op.axes.begin(), op.axes.end(), static_cast<int32_t>(axis)) != op.axes.end();
}

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
  for (const ChainOutput& output : body.outputs()) {
    if (output.alias_input >= 0) return false;
  }
  const std::vector<Dim>& dims = body.op(op.operands[0]).type.dims;
  bool reduced = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim::Constant(1)) continue;
    if (reduced && !IsReduced(op, i)) return false;
    reduced |= IsReduced(op, i);
  }
  const int64_t count = ReducedElements(body, op);
  const bool power = count > 1 && (count & (count - 1)) == 0;
  return reduced && power && count <= kMostOfSegment && CutUnits(program, op.type.dims).ok();
}

bool IsOfSegment(const Chain& body, const StitchProgram& program, const Op& reduction,
                 const Position& at, IndexVar unit, IndexVar element, IndexSpace& space) {
  int64_t results = 1;
  for (const Dim& dim : reduction.type.dims) results *= dim.symbolic ? 1 : dim.value;
  Index own = space.Quotient(Index::Of(element), ReducedElements(body, reduction));
  if (space.var(unit).extent != 1) own = own.Plus(Index::Of(unit).Times(results / program.units));
  return space.Canonical(LinearIndex(reduction.type.dims, at)) == space.Canonical(own);
}

int SegmentLanes(const Chain& body, const StitchSchedule& schedule, const Op& op, int vector) {
  const int64_t count = ReducedElements(body, op);
  const int64_t lanes = count / vector;
  const bool fits = count % vector == 0 && lanes <= std::min(kUnitWarp, schedule.unit_threads);
  return fits ? static_cast<int>(lanes) : 0;
}

bool SegmentsFit(const Chain& body, const StitchProgram& program, const StitchSchedule& schedule) {
  for (const StitchPhase& phase : program.phases) {
    for (const StitchLoop& loop : phase.loops) {
      const int vector = LoopVector(body, schedule, loop);
      for (const StitchRoot& root : loop.roots) {
        if (root.kind != StitchRoot::kSegment) continue;
        if (SegmentLanes(body, schedule, body.op(root.value), vector) == 0) return false;
      }
    }
  }
  return true;
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
  const auto shares = [](const ChainOutput& output) { return output.alias_input >= 0; };
  if (std::any_of(body.outputs().begin(), body.outputs().end(), shares)) return;
  for (StitchPhase& phase : program.phases) {
    for (StitchLoop& loop : phase.loops) loop.serial = IsSerial(body, program, loop);
    for (StitchLoop& loop : phase.flat) loop.serial = IsSerial(body, program, loop);
  }
}

}  // namespace sinter
