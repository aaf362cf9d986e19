#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/code/phase_writer.h"

namespace sinter {

ColumnText::ColumnText(const StitchCode& code, const StitchProgram& program)
    : code_(code),
      program_(program),
      places_(LayOutColumns(*code.body, program, code.schedule).places) {}

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
    if (loop != nullptr) return ShapeOf(*code_.body, code_.schedule, *loop, false);
  }
  return {};
}

int64_t ColumnText::LoopElements(const StitchProgram& program, ValueId column) {
  for (const StitchPhase& phase : program.phases) {
    const StitchLoop* loop = LoopIn(phase, column);
    if (loop != nullptr) return loop->elements;
  }
  return 1;
}

bool ColumnText::JoinsHeld(const Chain& body, const StitchProgram& program, ValueId column) {
  return program.whole && ColumnsOf(body, column) == 1;
}

std::string ColumnText::CountOf(const Chain& body, const StitchProgram& program, ValueId column) {
  const int64_t part = JoinsHeld(body, program, column) ? LoopElements(program, column) : 1;
  return part == 1 ? "units" : absl::StrCat("units * ", part, "ll");
}

std::string ColumnText::Declarations(const StitchPhase& phase) const {
  std::string text;
  for (const ColumnPlace& place : places_) {
    if (LoopIn(phase, place.value) != nullptr) absl::StrAppend(&text, Declaration(place));
  }
  return text;
}

std::string ColumnText::Declaration(const ColumnPlace& place) const {
  const PassShape shape = ShapeOfColumn(place.value);
  const std::string seen =
      place.mean >= 0 ? absl::StrCat("  float ", SeenName(place.value), " = 0.0f;\n") : "";
  return absl::Substitute(
      "$5  $0 $1[$2][$3];\n  #pragma unroll\n  for (int j = 0; j < $2; ++j)\n"
      "    SINTER_EACH($3) $1[j][e] = $4::empty($0{});\n",
      WordOf(place), ColumnName(place.value), shape.turns, shape.width, JoinOf(place), seen);
}

std::string ColumnText::Join(const StitchPhase& phase, StitchEmitter& emitter) const {
  const StitchSchedule& s = code_.schedule;
  std::string leave, gather, join;
  for (const ColumnPlace& place : places_) {
    if (LoopIn(phase, place.value) == nullptr) continue;
    absl::StrAppend(&leave, Leave(place));
    absl::StrAppend(&gather, Gather(place));
    absl::StrAppend(&join, JoinOne(place));
    const auto results = [&](ValueId value, const std::string& first) {
      const char* word = WordName(code_.body->op(value).type.dtype);
      emitter.SetColumn(
          value, {absl::StrCat("reinterpret_cast<const ", word, "*>(", first, ")"), s.join_all});
    };
    results(place.value, Results(place.results, place.output));
    if (place.mean >= 0) results(place.mean, Results(place.mean_results, place.mean_output));
  }
  if (leave.empty()) return "";
  const char* meet = "  grid_barrier(barrier);\n";
  if (s.column_cluster > 1)
    absl::StrAppend(&leave, "  cluster_arrive();\n  cluster_wait();\n", gather);
  return absl::StrCat(leave, meet, join, !s.join_all && ReadBehind(phase) ? meet : "");
}

const char* ColumnText::WordOf(const ColumnPlace& place) const {
  return place.mean >= 0 ? "Moments" : WordName(code_.body->op(place.value).type.dtype);
}

const char* ColumnText::JoinOf(const ColumnPlace& place) const {
  return place.mean >= 0 ? "JoinMoments" : JoinName(code_.body->op(place.value).reduce);
}

std::string ColumnText::OwnPart(const ColumnPlace& place) const {
  const int blocks = code_.schedule.LaunchCluster();
  return absl::Substitute("own_part<$0, $1, $2>(scratch + $3)", WordOf(place), blocks,
                          place.columns, place.parts);
}

std::string ColumnText::BlockPart(const ColumnPlace& place) const {
  return absl::Substitute("reinterpret_cast<$0*>(shared_columns + $1)", WordOf(place),
                          place.block_part);
}

std::string ColumnText::Results(int64_t offset, int output) const {
  if (code_.schedule.join_all) return absl::StrCat("shared_columns + ", offset);
  return output >= 0 ? absl::StrCat("out", output) : absl::StrCat("scratch + ", offset);
}

bool ColumnText::Stores(const StitchRoot& root) const {
  return root.kind == StitchRoot::kStore &&
         std::any_of(places_.begin(), places_.end(), [&](const ColumnPlace& place) {
           return place.output == root.output || place.mean_output == root.output;
         });
}

bool ColumnText::ReadBehind(const StitchPhase& phase) const {
  const auto number = &phase - program_.phases.data();
  return std::any_of(
      program_.phases.begin() + number + 1, program_.phases.end(),
      [&](const StitchPhase& behind) { return !OnlyStoresColumns(*code_.body, program_, behind); });
}

std::string ColumnText::ResultsObject(const ColumnPlace& place) const {
  const Op& op = code_.body->op(place.value);
  const std::string count = CountOf(*code_.body, program_, place.value);
  const std::string scale =
      op.reduce != ReduceKind::kMean
          ? "1"
          : absl::Substitute(place.mean < 0 ? "mean_rest($0)" : "1.0f / static_cast<float>($0)",
                             count);
  const char* word = WordName(op.type.dtype);
  const std::string to =
      absl::StrCat("reinterpret_cast<", word, "*>(", Results(place.results, place.output), ")");
  if (place.mean < 0) return absl::Substitute("ColumnResults<$0>{$1, $2}", word, to, scale);
  return absl::Substitute("MomentResults{reinterpret_cast<float*>($0), $1, $2}",
                          Results(place.mean_results, place.mean_output), to, scale);
}

std::string ColumnText::Leave(const ColumnPlace& place) const {
  const StitchSchedule& s = code_.schedule;
  const PassShape shape = ShapeOfColumn(place.value);
  const std::string name = ColumnName(place.value);
  std::string text;
  if (place.mean >= 0) {
    text = absl::Substitute(
        "  #pragma unroll\n  for (int j = 0; j < $0; ++j)\n"
        "    SINTER_EACH($1) $2[j][e].count = $3;\n",
        shape.turns, shape.width, name, SeenName(place.value));
  }
  if (JoinsHeld(*code_.body, program_, place.value)) {
    const std::string all = absl::StrCat(name, "_all");
    return text + absl::Substitute(
                      "  $1 $2[1][1];\n  $2[0][0] = join_held<$0>($3);\n"
                      "  leave_columns<$0, $1, $4, 1, 1, 1, 1, 1>($2,\n"
                      "      reinterpret_cast<$1*>(shared_columns), $5);\n",
                      JoinOf(place), WordOf(place), all, name, s.block_threads,
                      s.column_cluster > 1 ? BlockPart(place) : OwnPart(place));
  }
  return text + absl::Substitute(
                    "  leave_columns<$0, $1, $2, $3, $4, $5, $6, $7>($8,\n"
                    "      reinterpret_cast<$1*>(shared_columns), $9);\n",
                    JoinOf(place), WordOf(place), s.block_threads, s.unit_threads, s.cluster,
                    shape.turns, shape.width, place.columns, name,
                    s.column_cluster > 1 ? BlockPart(place) : OwnPart(place));
}

std::string ColumnText::Gather(const ColumnPlace& place) const {
  const StitchSchedule& s = code_.schedule;
  return absl::Substitute("  gather_columns<$0, $1, $2, $3, $4>($5,\n      $6);\n", JoinOf(place),
                          WordOf(place), s.block_threads, s.column_cluster, place.columns,
                          BlockPart(place), OwnPart(place));
}

std::string ColumnText::JoinOne(const ColumnPlace& place) const {
  const StitchSchedule& s = code_.schedule;
  return absl::Substitute(
      "  $0<$1, $2, $3, $4, $5>(reinterpret_cast<const $2*>(scratch + $6),\n"
      "      reinterpret_cast<$2*>(shared_columns), $7);\n",
      s.join_all ? "join_all_columns" : "join_columns", JoinOf(place), WordOf(place),
      s.block_threads, s.LaunchCluster(), place.columns, place.parts, ResultsObject(place));
}

}  // namespace sinter
