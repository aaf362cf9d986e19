#include "src/codegen/stitch/column_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/codegen/stitch/op_text.h"

namespace sinter {

ColumnText::ColumnText(const StitchSpec& spec, const StitchProgram& program)
    : spec_(spec),
      program_(program),
      places_(LayOutColumns(spec.body, program, spec.schedule).places) {}

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
  const StitchSchedule& s = spec_.schedule;
  std::string leave, gather, join;
  for (const ColumnPlace& place : places_) {
    if (LoopIn(phase, place.value) == nullptr) continue;
    absl::StrAppend(&leave, Leave(place));
    absl::StrAppend(&gather, Gather(place));
    absl::StrAppend(&join, JoinOne(place));
    emitter.SetColumn(place.value, {absl::StrCat("reinterpret_cast<const ", WordOf(place), "*>(",
                                                 Results(place), ")"),
                                    s.join_all});
  }
  if (leave.empty()) return "";
  const char* meet = "  grid_barrier(barrier);\n";
  if (s.column_cluster > 1)
    absl::StrAppend(&leave, "  cluster_arrive();\n  cluster_wait();\n", gather);
  return absl::StrCat(leave, meet, join, s.join_all ? "" : meet);
}

const char* ColumnText::WordOf(const ColumnPlace& place) const {
  return WordName(spec_.body.op(place.value).type.dtype);
}

std::string ColumnText::OwnPart(const ColumnPlace& place) const {
  const int blocks = spec_.schedule.LaunchCluster();
  return absl::Substitute("own_part<$0, $1, $2>(scratch + $3)", WordOf(place), blocks,
                          place.columns, place.parts);
}

std::string ColumnText::BlockPart(const ColumnPlace& place) const {
  return absl::Substitute("reinterpret_cast<$0*>(shared_columns + $1)", WordOf(place),
                          place.block_part);
}

std::string ColumnText::Results(const ColumnPlace& place) const {
  return spec_.schedule.join_all ? absl::StrCat("shared_columns + ", place.block_results)
                                 : absl::StrCat("scratch + ", place.results);
}

std::string ColumnText::Leave(const ColumnPlace& place) const {
  const StitchSchedule& s = spec_.schedule;
  const PassShape shape = ShapeOfColumn(place.value);
  return absl::Substitute(
      "  leave_columns<$0, $1, $2, $3, $4, $5, $6, $7>($8,\n"
      "      reinterpret_cast<$1*>(shared_columns), $9);\n",
      JoinName(spec_.body.op(place.value).reduce), WordOf(place), s.block_threads, s.unit_threads,
      s.cluster, shape.turns, shape.width, place.columns, ColumnName(place.value),
      s.column_cluster > 1 ? BlockPart(place) : OwnPart(place));
}

std::string ColumnText::Gather(const ColumnPlace& place) const {
  const StitchSchedule& s = spec_.schedule;
  return absl::Substitute("  gather_columns<$0, $1, $2, $3, $4>($5,\n      $6);\n",
                          JoinName(spec_.body.op(place.value).reduce), WordOf(place),
                          s.block_threads, s.column_cluster, place.columns, BlockPart(place),
                          OwnPart(place));
}

std::string ColumnText::JoinOne(const ColumnPlace& place) const {
  const StitchSchedule& s = spec_.schedule;
  const Op& op = spec_.body.op(place.value);
  return absl::Substitute(
      "  $0<$1, $2, $3, $4, $5>(reinterpret_cast<const $2*>(scratch + $6),\n"
      "      reinterpret_cast<$2*>(shared_columns), reinterpret_cast<$2*>($7), $8);\n",
      s.join_all ? "join_all_columns" : "join_columns", JoinName(op.reduce), WordOf(place),
      s.block_threads, s.LaunchCluster(), place.columns, place.parts, Results(place),
      op.reduce == ReduceKind::kMean ? "1.0f / static_cast<float>(units)" : "1");
}

}  // namespace sinter
