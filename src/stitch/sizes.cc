#include "src/stitch/sizes.h"

#include <algorithm>

#include "src/base/numbers.h"
#include "src/stitch/phases.h"
#include "src/stitch/shared_reads.h"

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
  ForEachLoop(program, [&](const StitchLoop& loop, const StitchPhase*) {
    size_t rows = 0;
    for (const StitchRoot& root : loop.roots) rows += root.kind == StitchRoot::kRow;
    slots = std::max(slots, rows);
  });
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

namespace {

constexpr int64_t kPartAlignment = 256, kResultAlignment = 16;
constexpr int64_t kColumnBytes = 4, kMomentBytes = 16;  // bytes of a column in a part
constexpr int64_t kReadBytes = 16;  // shared memory of a thread that joins parts for its own block

// Shared memory that a block's joins use in turn: first the groups' parts of a column, then the
// threads'.
int64_t OwnJoinBytes(const std::vector<ColumnPlace>& places, const StitchSchedule& s) {
  int64_t bytes = 0;
  for (const ColumnPlace& place : places) {
    bytes = std::max(bytes, s.block_threads * (s.join_all ? kReadBytes : place.part_bytes));
    if (s.UnitsPerBlock() == 1) continue;
    bytes = std::max(bytes, s.UnitsPerBlock() * place.columns * place.part_bytes);
  }
  return bytes;
}

ColumnPlace PlaceOf(const Chain& body, const StitchRoot& root, int64_t columns, bool join_all) {
  ColumnPlace place;
  place.value = root.value;
  place.mean = root.mean;
  place.columns = columns;
  place.part_bytes = root.mean >= 0 ? kMomentBytes : kColumnBytes;
  if (join_all) return place;
  place.output = ColumnOutput(body, root.value);
  if (root.mean >= 0) place.mean_output = ColumnOutput(body, root.mean);
  return place;
}

// Takes `bytes` after `*end` and moves `*end`.
int64_t Take(int64_t bytes, int64_t alignment, int64_t* end) {
  const int64_t begin = RoundUp(*end, alignment);
  *end = begin + RoundUp(bytes, alignment);
  return begin;
}

// The ends of the regions that have been laid out.
struct Ends {
  int64_t scratch = 0, results = 0;
};

void TakeRoom(const StitchSchedule& s, ColumnPlace* place, Ends* ends) {
  const int64_t part = place->columns * place->part_bytes, result = place->columns * kColumnBytes;
  place->parts = static_cast<uint64_t>(Take(part * s.grid, kPartAlignment, &ends->scratch));
  int64_t* const end = s.join_all ? &ends->results : &ends->scratch;
  const int64_t alignment = s.join_all ? kResultAlignment : kPartAlignment;
  if (place->output < 0) place->results = Take(result, alignment, end);
  if (place->mean >= 0 && place->mean_output < 0)
    place->mean_results = Take(result, alignment, end);
}

}  // namespace

int64_t ColumnsOf(const Chain& body, ValueId value) {
  int64_t columns = 1;
  for (const Dim& dim : body.op(value).type.dims) columns *= dim.value;
  return columns;
}

int ColumnOutput(const Chain& body, ValueId value) {
  const TensorType& type = body.op(value).type;
  if (type.dtype != DType::kF32 && type.dtype != DType::kS32) return -1;
  for (int i = 0; i < body.num_outputs(); ++i) {
    const ChainOutput& output = body.outputs()[static_cast<size_t>(i)];
    if (output.value != value || output.alias_input >= 0) continue;
    if (output.strides == ContiguousStrides(type.dims)) return i;
  }
  return -1;
}

bool OnlyStoresColumns(const Chain& body, const StitchProgram& program, const StitchPhase& phase) {
  const auto is_column = [&](const StitchRoot& root) {
    return program.uses[static_cast<size_t>(root.value)] == ReduceUse::kColumn &&
           ColumnOutput(body, root.value) == root.output;
  };
  return phase.loops.empty() &&
         std::all_of(phase.flat.begin(), phase.flat.end(), [&](const StitchLoop& loop) {
           return std::all_of(loop.roots.begin(), loop.roots.end(), is_column);
         });
}

ColumnLayout LayOutColumns(const Chain& body, const StitchProgram& program,
                           const StitchSchedule& schedule) {
  ColumnLayout layout;
  Ends ends;
  for (const StitchPhase& phase : program.phases) {
    for (const StitchLoop& loop : phase.loops) {
      for (const StitchRoot& root : loop.roots) {
        if (root.kind != StitchRoot::kColumn) continue;
        layout.places.push_back(
            PlaceOf(body, root, ColumnsOf(body, root.value), schedule.join_all));
        TakeRoom(schedule, &layout.places.back(), &ends);
      }
    }
  }
  const int64_t own = OwnJoinBytes(layout.places, schedule);
  const int64_t results_begin = RoundUp(own, kResultAlignment);
  for (ColumnPlace& place : layout.places) {
    if (!schedule.join_all) continue;
    place.results += results_begin;
    place.mean_results += results_begin;
  }
  layout.scratch_bytes = static_cast<uint64_t>(ends.scratch);
  layout.shared_bytes = ends.results == 0 ? own : results_begin + ends.results;
  return layout;
}

}  // namespace sinter
