#include "src/stitch/sizes.h"

#include <algorithm>

#include "src/base/numbers.h"
#include "src/stitch/slots.h"
#include "src/stitch/staging.h"

namespace sinter {
namespace {

constexpr int64_t kSlotBytes = 4, kSlotAlignment = 16;
constexpr int64_t kVectorsAtOnce = 4;  // of one input

// The largest power of two up to `most` that divides `value`.
int DividingPower(int64_t value, int most) {
  int power = most;
  while (value % power != 0) power /= 2;
  return power;
}

// A vector lies in one operand of a concatenation, at one place or at neighbouring ones, where the
// concatenation is read in its own order.
int ConcatVector(const Chain& body, int most) {
  int vector = most;
  for (const Op& op : body.ops()) {
    if (op.kind != OpKind::kConcat) continue;
    int64_t inner = 1;
    for (size_t i = static_cast<size_t>(op.axis) + 1; i < op.type.dims.size(); ++i) {
      inner *= op.type.dims[i].value;
    }
    if (inner > 1) vector = DividingPower(inner, vector);
    for (ValueId operand : op.operands) {
      const Dim dim = body.op(operand).type.dims[static_cast<size_t>(op.axis)];
      vector = DividingPower(dim.value, vector);
    }
  }
  return vector;
}

}  // namespace

int LoopVector(const Chain& body, const StitchSchedule& schedule, const StitchLoop& loop) {
  return DividingPower(loop.elements, ConcatVector(body, schedule.vector));
}

int LoopSplit(const StitchSchedule& schedule, const StitchLoop& loop) {
  return loop.serial ? schedule.split : 1;
}

int64_t LoopTurns(const Chain& body, const StitchSchedule& schedule, const StitchLoop& loop) {
  const int64_t turn = int64_t{schedule.unit_threads} / LoopSplit(schedule, loop) *
                       schedule.cluster * LoopVector(body, schedule, loop);
  return CeilDiv(loop.elements, turn);
}

int UnitsAtOnce(const Chain& body, const StitchSchedule& schedule, const StitchPhase& phase) {
  if (schedule.staged) return 1;
  int64_t turns = 1;
  for (const StitchLoop& loop : phase.loops) {
    turns = std::max(turns, LoopTurns(body, schedule, loop));
    for (const StitchRoot& root : loop.roots) {
      if (root.kind != StitchRoot::kStore && root.kind != StitchRoot::kColumn) return 1;
    }
  }
  return static_cast<int>(std::max<int64_t>(1, kVectorsAtOnce / turns));
}

int UnitsAtOnce(const Chain& body, const StitchSchedule& schedule, const StitchProgram& program) {
  int most = 1;
  for (const StitchPhase& phase : program.phases) {
    if (!phase.loops.empty()) most = std::max(most, UnitsAtOnce(body, schedule, phase));
  }
  return most;
}

int64_t UnitRounds(const StitchProgram& program, const StitchSchedule& schedule, int64_t m) {
  const int64_t units = program.units * (program.units_symbolic ? m : 1);
  const int64_t round = int64_t{schedule.grid} / schedule.cluster * schedule.UnitsPerBlock();
  return CeilDiv(units, round);
}

int RowSlots(const StitchProgram& program) {
  size_t slots = 0;
  for (const StitchPhase& phase : program.phases) {
    for (const StitchLoop& loop : phase.loops) {
      size_t rows = 0;
      for (const StitchRoot& root : loop.roots) rows += root.kind == StitchRoot::kRow;
      slots = std::max(slots, rows);
    }
  }
  return static_cast<int>(slots);
}

int64_t HandsOffset(const Chain& body, const StitchProgram& program, const StitchSchedule& s) {
  if (program.owner < 0) return 0;
  const int64_t warps = s.unit_threads / 32;
  const int64_t words = (warps > 1 ? warps : 0) + (s.cluster > 1 ? s.cluster : 0);
  const int64_t rows = 2 * s.UnitsPerBlock() * std::max(1, RowSlots(program)) * words * kSlotBytes;
  const int64_t group = RoundUp(rows, kSlotAlignment);
  return s.hold_bytes + group + LayOutColumns(body, program, s).shared_bytes;
}

int64_t StitchSharedBytes(const Chain& body, const StitchProgram& program,
                          const StitchSchedule& s) {
  const int64_t others = HandsOffset(body, program, s);
  const std::vector<StagedPlace> staged = LayOutStaged(body, program, s);
  if (!staged.empty()) {
    return RoundUp(others, kSlotAlignment) + staged.back().offset + staged.back().bytes;
  }
  if (program.handed.empty()) return others;
  return RoundUp(others, kSlotAlignment) +
         LayOutHands(body, program, s).group_bytes * s.UnitsPerBlock();
}

}  // namespace sinter
