#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/code/phase_writer.h"

namespace sinter {
namespace {

// The loop of the phase that makes `column`; null when another phase makes it.
const StitchLoop* LoopIn(const StitchPhase& phase, ValueId column) {
  for (const StitchLoop& loop : phase.loops) {
    for (const StitchRoot& root : loop.roots) {
      if (root.kind == StitchRoot::kColumn && root.value == column) return &loop;
    }
  }
  return nullptr;
}

const StitchLoop& LoopOf(const StitchProgram& program, ValueId column) {
  const StitchLoop* loop = nullptr;
  for (const StitchPhase& phase : program.phases) {
    if (loop == nullptr) loop = LoopIn(phase, column);
  }
  return *loop;
}

// Whether all that a thread holds of it are parts of one column: the program's units are parts of
// reductions over everything, and this is one. Others next to it have a column for each element.
bool JoinsHeld(const Chain& body, const StitchProgram& program, ValueId column) {
  return program.whole && ColumnsOf(body, column) == 1;
}

// One column reduction of a schedule: its accumulators, its parts and its results.
class PlaceText {
 public:
  PlaceText(const StitchCode& code, const StitchProgram& program, const ColumnPlace& place)
      : code_(code),
        program_(program),
        s_(code.schedule),
        place_(place),
        op_(code.body->op(place.value)),
        shape_(ShapeOf(*code.body, code.schedule, LoopOf(program, place.value), false)),
        name_(ColumnName(place.value)),
        word_(place.mean >= 0 ? "Moments" : WordName(op_.type.dtype)),
        join_(place.mean >= 0 ? "JoinMoments" : JoinName(op_.reduce)) {}

  std::string Declaration() const {
    const std::string seen =
        place_.mean >= 0 ? absl::StrCat("  float ", SeenName(place_.value), " = 0.0f;\n") : "";
    return absl::Substitute(
        "$5  $0 $1[$2][$3];\n  #pragma unroll\n  for (int j = 0; j < $2; ++j)\n"
        "    SINTER_EACH($3) $1[j][e] = $4::empty($0{});\n",
        word_, name_, shape_.turns, shape_.width, join_, seen);
  }

  // A block leaves its part in the launch's scratch.
  std::string Leave() const {
    std::string text;
    if (place_.mean >= 0) {
      text = absl::Substitute(
          "  #pragma unroll\n  for (int j = 0; j < $0; ++j)\n"
          "    SINTER_EACH($1) $2[j][e].count = $3;\n",
          shape_.turns, shape_.width, name_, SeenName(place_.value));
    }
    if (JoinsHeld(*code_.body, program_, place_.value)) {
      return text + absl::Substitute(
                        "  $1 $2[1][1];\n  $2[0][0] = join_held<$0>($3);\n"
                        "  leave_columns<$0, $1, $4, 1, 1, 1, 1, 1>($2,\n"
                        "      reinterpret_cast<$1*>(shared_columns), $5);\n",
                        join_, word_, absl::StrCat(name_, "_all"), name_, s_.block_threads,
                        OwnPart());
    }
    return text + absl::Substitute(
                      "  leave_columns<$0, $1, $2, $3, $4, $5, $6, $7>($8,\n"
                      "      reinterpret_cast<$1*>(shared_columns), $9);\n",
                      join_, word_, s_.block_threads, s_.unit_threads, s_.cluster, shape_.turns,
                      shape_.width, place_.columns, name_, OwnPart());
  }

  std::string JoinOne() const {
    return absl::Substitute(
        "  $0<$1, $2, $3, $4, $5>(reinterpret_cast<const $2*>(scratch + $6),\n"
        "      reinterpret_cast<$2*>(shared_columns), $7);\n",
        s_.join_all ? "join_all_columns" : "join_columns", join_, word_, s_.block_threads,
        s_.cluster, place_.columns, place_.parts, ResultsObject());
  }

  // The address of its results, or of those of the mean that is computed with it.
  std::string Results(bool of_mean) const {
    const int64_t offset = of_mean ? place_.mean_results : place_.results;
    const int output = of_mean ? place_.mean_output : place_.output;
    if (s_.join_all) return absl::StrCat("shared_columns + ", offset);
    return output >= 0 ? absl::StrCat("out", output) : absl::StrCat("scratch + ", offset);
  }

 private:
  std::string OwnPart() const {
    return absl::Substitute("own_part<$0, $1, $2>(scratch + $3)", word_, s_.cluster, place_.columns,
                            place_.parts);
  }

  std::string ResultsObject() const {
    const std::string count = ColumnText::CountOf(*code_.body, program_, place_.value);
    const std::string scale =
        op_.reduce != ReduceKind::kMean
            ? "1"
            : absl::Substitute(place_.mean < 0 ? "mean_rest($0)" : "1.0f / static_cast<float>($0)",
                               count);
    const char* word = WordName(op_.type.dtype);
    const std::string to = absl::StrCat("reinterpret_cast<", word, "*>(", Results(false), ")");
    if (place_.mean < 0) return absl::Substitute("ColumnResults<$0>{$1, $2}", word, to, scale);
    return absl::Substitute("MomentResults{reinterpret_cast<float*>($0), $1, $2}", Results(true),
                            to, scale);
  }

  const StitchCode& code_;
  const StitchProgram& program_;
  const StitchSchedule& s_;
  const ColumnPlace& place_;
  const Op& op_;
  const PassShape shape_;
  const std::string name_;
  const char *const word_, *const join_;  // the type of a column in a part; what joins two
};

}  // namespace

ColumnText::ColumnText(const StitchCode& code, const StitchProgram& program)
    : code_(code),
      program_(program),
      places_(LayOutColumns(*code.body, program, code.schedule).places) {}

std::string ColumnText::CountOf(const Chain& body, const StitchProgram& program, ValueId column) {
  const int64_t part = JoinsHeld(body, program, column) ? LoopOf(program, column).elements : 1;
  return part == 1 ? "units" : absl::StrCat("units * ", part, "ll");
}

std::string ColumnText::Declarations(const StitchPhase& phase) const {
  std::string text;
  for (const ColumnPlace& place : places_) {
    if (LoopIn(phase, place.value) == nullptr) continue;
    absl::StrAppend(&text, PlaceText(code_, program_, place).Declaration());
  }
  return text;
}

std::string ColumnText::Join(const StitchPhase& phase, StitchEmitter& emitter) const {
  const StitchSchedule& s = code_.schedule;
  std::string leave, join;
  for (const ColumnPlace& place : places_) {
    if (LoopIn(phase, place.value) == nullptr) continue;
    const PlaceText column(code_, program_, place);
    absl::StrAppend(&leave, column.Leave());
    absl::StrAppend(&join, column.JoinOne());
    const auto publish = [&](ValueId value, const std::string& first) {
      const char* word = WordName(code_.body->op(value).type.dtype);
      emitter.SetColumn(
          value, {absl::StrCat("reinterpret_cast<const ", word, "*>(", first, ")"), s.join_all});
    };
    publish(place.value, column.Results(false));
    if (place.mean >= 0) publish(place.mean, column.Results(true));
  }
  if (leave.empty()) return "";
  // Whether later phases read what other blocks have joined.
  const auto number = &phase - program_.phases.data();
  const bool read_later = std::any_of(
      program_.phases.begin() + number + 1, program_.phases.end(),
      [&](const StitchPhase& later) { return !OnlyStoresColumns(*code_.body, program_, later); });
  const char* meet = "  grid_barrier(barrier);\n";
  return absl::StrCat(leave, meet, join, !s.join_all && read_later ? meet : "");
}

bool ColumnText::Stores(const StitchRoot& root) const {
  return root.kind == StitchRoot::kStore &&
         std::any_of(places_.begin(), places_.end(), [&](const ColumnPlace& place) {
           return place.output == root.output || place.mean_output == root.output;
         });
}

}  // namespace sinter
