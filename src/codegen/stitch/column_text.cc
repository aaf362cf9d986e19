#include "src/codegen/stitch/column_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/codegen/stitch/op_text.h"

namespace sinter {

ColumnText::ColumnText(const StitchSpec& spec, const StitchProgram& program)
    : spec_(spec), program_(program) {
  uint64_t scratch_bytes = 0;
  places_ = ColumnPlaces(spec.body, program, spec.schedule, &scratch_bytes);
}

const StitchLoop* ColumnText::LoopIn(const StitchPhase& phase, ValueId column) {
  for (const StitchLoop& loop : phase.loops) {
    for (const StitchRoot& root : loop.roots) {
      if (root.kind == StitchRoot::kColumn && root.value == column) return &loop;
    }
  }
  return nullptr;
}

PassShape ColumnText::ShapeOfColumn(ValueId column) const {
  for (const StitchPhase& phase : program_.phases) {
    const StitchLoop* loop = LoopIn(phase, column);
    if (loop != nullptr) return ShapeOf(spec_.body, spec_.schedule, *loop, false);
  }
  return {};
}

std::string ColumnText::Declarations(const StitchPhase& phase) const {
  std::string text;
  for (const ColumnPlace& place : places_) {
    if (LoopIn(phase, place.value) != nullptr) absl::StrAppend(&text, Declaration(place));
  }
  return text;
}

std::string ColumnText::Declaration(const ColumnPlace& place) const {
  const Op& op = spec_.body.op(place.value);
  const PassShape shape = ShapeOfColumn(place.value);
  const char* word = WordName(op.type.dtype);
  return absl::Substitute(
      "  $0 $1[$2][$3];\n  #pragma unroll\n  for (int j = 0; j < $2; ++j)\n"
      "    SINTER_EACH($3) $1[j][e] = $4::empty($0{});\n",
      word, ColumnName(place.value), shape.turns, shape.width, JoinName(op.reduce));
}

std::string ColumnText::Join(const StitchPhase& phase, StitchEmitter& emitter) const {
  std::string leave, join;
  for (const ColumnPlace& place : places_) {
    if (LoopIn(phase, place.value) == nullptr) continue;
    absl::StrAppend(&leave, Leave(place));
    absl::StrAppend(&join, JoinOne(place));
    emitter.SetColumn(place.value, absl::Substitute("reinterpret_cast<const $0*>(scratch + $1)",
                                                    WordName(spec_.body.op(place.value).type.dtype),
                                                    place.results));
  }
  if (leave.empty()) return "";
  return absl::StrCat(leave, "  grid_barrier(barrier);\n", join, "  grid_barrier(barrier);\n");
}

std::string ColumnText::Leave(const ColumnPlace& place) const {
  const StitchSchedule& s = spec_.schedule;
  const Op& op = spec_.body.op(place.value);
  const PassShape shape = ShapeOfColumn(place.value);
  return absl::Substitute(
      "  leave_columns<$0, $1, $2, $3, $9, $4, $5, $6>($7, "
      "reinterpret_cast<$1*>(shared_columns),\n"
      "      reinterpret_cast<$1*>(scratch + $8));\n",
      JoinName(op.reduce), WordName(op.type.dtype), s.block_threads, s.unit_threads, shape.turns,
      shape.width, place.columns, ColumnName(place.value), place.parts, s.cluster);
}

std::string ColumnText::JoinOne(const ColumnPlace& place) const {
  const StitchSchedule& s = spec_.schedule;
  const Op& op = spec_.body.op(place.value);
  return absl::Substitute(
      "  join_columns<$0, $1, $2, $7, $3>(reinterpret_cast<const $1*>(scratch + $4),\n"
      "      reinterpret_cast<$1*>(shared_columns), reinterpret_cast<$1*>(scratch + "
      "$5), $6);\n",
      JoinName(op.reduce), WordName(op.type.dtype), s.block_threads, place.columns, place.parts,
      place.results, op.reduce == ReduceKind::kMean ? "1.0f / static_cast<float>(units)" : "1",
      s.cluster);
}

}  // namespace sinter
