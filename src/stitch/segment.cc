#include "src/stitch/segment.h"

#include <algorithm>

#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr int kWarp = 32;
constexpr int64_t kMostOfSegment = 128;  // words of a warp

bool IsReduced(const Op& op, size_t axis) {
  return std::find(op.axes.begin(), op.axes.end(), static_cast<int32_t>(axis)) != op.axes.end();
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
  const bool fits = count % vector == 0 && lanes <= std::min(kWarp, schedule.unit_threads);
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

}  // namespace sinter
