#include "src/stitch/code/pass_writer.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/substitute.h"
#include "src/base/status.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/code/phase_writer.h"
#include "src/stitch/code/scoped_text.h"
#include "src/stitch/phases.h"
#include "src/stitch/program.h"
#include "src/stitch/sectors.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr int kUnrolled = 4;  // turns, where no value is kept for each turn

bool RoundsAsStored(const Chain& body, const Op& op) {
  const bool narrow = HoldsFloats(op.type.dtype) && op.type.dtype != DType::kF32;
  return op.kind == OpKind::kCast && narrow && IsFloat(body.op(op.operands[0]).type.dtype);
}

// The number of the group of `split` lanes that thread `t` of a block or unit belongs to.
std::string Sharer(const char* thread, int split) {
  return split == 1 ? thread : absl::StrCat(thread, " / ", split);
}

// Elements of one turn of all threads in a pass: a block's threads, or a unit's.
int64_t TurnElements(const PassShape& shape, const StitchSchedule& s) {
  const int64_t threads = shape.flat ? s.block_threads : int64_t{s.unit_threads} * s.cluster;
  return threads / shape.split * shape.width;
}

std::string Guard(const PassShape& shape, const StitchSchedule& s) {
  if (IsWhole(shape, s)) return "";
  return shape.flat ? "if (n < count) " : absl::StrCat("if (i < ", shape.elements, ") ");
}

}  // namespace

std::string RowName(ValueId id) { return absl::StrCat("row", id); }
std::string ColumnName(ValueId id) { return absl::StrCat("column", id); }
std::string SegmentName(ValueId id) { return absl::StrCat("segment", id); }
std::string SeenName(ValueId id) { return absl::StrCat("seen", id); }

PassShape ShapeOf(const Chain& body, const StitchSchedule& schedule, const StitchLoop& loop,
                  bool flat) {
  PassShape shape;
  shape.flat = flat;
  shape.elements = loop.elements;
  shape.symbolic = loop.symbolic;
  shape.width = LoopVector(body, schedule, loop);
  shape.split = LoopSplit(schedule, loop);
  shape.turns = flat ? schedule.chunks : LoopTurns(body, schedule, loop);
  bool columns = false;
  for (const StitchRoot& root : loop.roots) columns |= root.kind == StitchRoot::kColumn;
  shape.whole_unroll = flat || columns || loop.segments || schedule.keep_inputs ||
                       schedule.keep_values || schedule.keep_alike;
  return shape;
}

bool IsWhole(const PassShape& shape, const StitchSchedule& s) {
  return shape.known && shape.elements % (shape.turns * TurnElements(shape, s)) == 0;
}

bool CountsInts(const PassShape& shape) {
  constexpr int64_t kMost = int64_t{1} << 30;  // threads count beyond the last by a turn
  return !shape.flat || (!shape.symbolic && shape.elements <= kMost);
}

std::string AroundElements(const PassShape& shape, const StitchSchedule& s,
                           const std::string& inside, Beyond beyond) {
  const std::string unroll = shape.whole_unroll
                                 ? "    #pragma unroll\n"
                                 : absl::StrCat("    #pragma unroll ", kUnrolled, "\n");
  if (shape.flat) {
    const std::string place =
        absl::Substitute("base + (j * $0 + $1) * $2", s.block_threads / shape.split,
                         Sharer("static_cast<int>(threadIdx.x)", shape.split), shape.width);
    const auto element = [&](const std::string& number) {
      const char* const int_of = "const int n = static_cast<int>(";
      return absl::StrCat("      ", CountsInts(shape) ? int_of : "const long long n = (", number,
                          ");\n      __builtin_assume(n >= 0);\n");
    };
    if (beyond == Beyond::kLast && !IsWhole(shape, s)) {
      return absl::Substitute(
          "$0    for (int j = 0; j < $1; ++j) {\n      const long long mine = $2;\n"
          "$3      {\n$4      }\n    }\n",
          unroll, shape.turns, place,
          element(absl::StrCat("mine < count ? mine : count - ", shape.width)), inside);
    }
    return absl::Substitute("$0    for (int j = 0; j < $1; ++j) {\n$2      $3{\n$4      }\n    }\n",
                            unroll, shape.turns, element(place), Guard(shape, s), inside);
  }
  const int sharers = s.unit_threads / shape.split;
  const std::string place =
      s.cluster > 1 ? absl::StrCat("((j * ", s.cluster, " + rank) * ", sharers, " + ",
                                   Sharer("t", shape.split), ")")
                    : absl::StrCat("(j * ", sharers, " + ", Sharer("t", shape.split), ")");
  return absl::Substitute(
      "$0    for (int j = 0; j < $1; ++j) {\n      const int i = $2 * $3;\n      $4{\n$5      }\n"
      "    }\n",
      unroll, shape.turns, place, shape.width, Guard(shape, s), inside);
}

absl::StatusOr<Position> PassWriter::PositionOf(const StitchRoot& root, const PassShape& shape,
                                                IndexVar element) {
  const IndexVar unit = shape.flat ? -1 : emitter_.unit();
  return PositionOfRoot(*code_.body, program_, root, unit, element, emitter_.space());
}

absl::Status PassWriter::Write(const StitchLoop& loop, const PassShape& shape, IndexVar element,
                               int number) {
  split_ = shape.split;
  emitter_.BeginPass(element, shape.width, number, shape.split);
  for (const StitchRoot& root : loop.roots) {
    if (root.kind != StitchRoot::kRow) continue;
    const Op& op = code_.body->op(root.value);
    const char* word = WordName(op.type.dtype);
    emitter_.Add(kUnitDepth, absl::StrCat(word, " ", RowName(root.value), " = ",
                                          JoinName(op.reduce), "::empty(", word, "{});"));
  }
  for (const StitchRoot& root : loop.roots) {
    if (root.kind != StitchRoot::kSegment) continue;
    emitter_.Add(kUnitDepth, absl::StrCat(WordName(code_.body->op(root.value).type.dtype), " ",
                                          SegmentName(root.value), "[", shape.turns, "];"));
  }
  emitter_.OpenScope();
  absl::Status status;
  for (const StitchRoot& root : loop.roots) {
    const absl::StatusOr<Position> at = PositionOf(root, shape, element);
    status.Update(at.status());
    if (status.ok()) status.Update(WriteRoot(root, *at));
  }
  const std::string inside = emitter_.CloseScope();
  SINTER_RETURN_IF_ERROR(status);
  emitter_.Append(AroundElements(shape, code_.schedule, inside));
  JoinRows(loop);
  StepRows(loop);
  return absl::OkStatus();
}

absl::Status PassWriter::WriteRoot(const StitchRoot& root, const Position& at) {
  switch (root.kind) {
    case StitchRoot::kStore:
    case StitchRoot::kScatter:
      return Store(root, at);
    case StitchRoot::kRow:
      return Row(root, at);
    case StitchRoot::kColumn:
      return Column(root, at);
    case StitchRoot::kSegment:
      return Segment(root, at);
    case StitchRoot::kHand:
      return Hand(root, at);
  }
  return absl::OkStatus();
}

std::string PassWriter::Once() const {
  if (split_ == 1) return "live";
  return absl::StrCat("live && static_cast<int>(threadIdx.x) % ", split_, " == 0");
}

std::string PassWriter::Words(DType dtype, const std::string& each) {
  const std::string words = emitter_.NewName("w");
  emitter_.Add(absl::StrCat(WordName(dtype), " ", words, "[", emitter_.width(), "];"));
  emitter_.Add(absl::StrCat(emitter_.EachText(), words, "[e] = ", each, ";"));
  return words;
}

absl::Status PassWriter::Store(const StitchRoot& root, const Position& at) {
  const ChainOutput& output = code_.body->outputs()[static_cast<size_t>(root.output)];
  const DType dtype = code_.body->op(root.value).type.dtype;
  // The store rounds, so a cast before it is left out.
  const ValueId walked = WalkedValue(*code_.body, root);
  const bool rounds = RoundsAsStored(*code_.body, code_.body->op(walked));
  SINTER_ASSIGN_OR_RETURN(const Emitted value,
                          rounds ? emitter_.PullOperand(walked, at) : emitter_.Pull(walked, at));
  ScatterText::Place place{{}, at};
  if (code_.body->op(root.value).kind == OpKind::kScatter) {
    ScatterText scatter(*code_.body, emitter_);
    SINTER_ASSIGN_OR_RETURN(place, root.kind == StitchRoot::kStore
                                       ? scatter.Left(root.value, at)
                                       : scatter.Written(root.value, at));
  }
  const Index address = emitter_.Address(place.at, output.strides);
  const int width = emitter_.width();
  const Along along = AlongVector(emitter_.space(), address, emitter_.element(), width);
  const std::string to = absl::StrCat("out", root.output), element = ElementTypeName(dtype);
  const std::string words = Words(dtype, value.Each());
  if (root.spread > 1) return StoreOfSegment(root, address, words);
  if (holds_ != nullptr && IsReadBack(program_, phase_, root.output)) {
    const std::string pack = absl::Substitute("packed<$0, $1>($2)", element, width, words);
    const std::string leave = holds_->Leave(emitter_.NoteLeft(root.value, at), phase_, pack);
    if (!leave.empty()) emitter_.Add(leave);
  }
  const bool next = along == Along::kNext && !place.stored.vector;
  const std::string where = IndexText(emitter_.space(), address, emitter_.element(),
                                      along == Along::kScattered || place.stored.vector);
  std::string once = Once(), each;
  if (place.stored.vector) each = absl::StrCat("if (", place.stored.Each(), ") ");
  if (!place.stored.vector && !place.stored.name.empty()) {
    absl::StrAppend(&once, " && ", place.stored.name);
  }
  emitter_.Add(next ? absl::StrCat("if (", once, ") store_pack<", element, ", ", width, ">(", to,
                                   " + ", where, ", ", words, ");")
                    : absl::StrCat("if (", once, ") ", emitter_.EachText(), each, to, "[", where,
                                   "] = ", element, "::stored(", words, "[e]);"));
  return absl::OkStatus();
}

// The lane of a segment's first element stores.
absl::Status PassWriter::StoreOfSegment(const StitchRoot& root, const Index& address,
                                        const std::string& words) {
  const bool each = root.spread % emitter_.width() != 0;  // a vector lies over several segments
  const auto text = [&](const Index& index) {
    return IndexText(emitter_.space(), index, emitter_.element(), each);
  };
  emitter_.Add(absl::Substitute(
      "$0if ($1 && $2 % $3 == 0) out$4[$5] = $6::stored($7[$8]);", each ? emitter_.EachText() : "",
      Once(), text(Index::Of(emitter_.element())), root.spread, root.output, text(address),
      ElementTypeName(code_.body->op(root.value).type.dtype), words, each ? "e" : "0"));
  return absl::OkStatus();
}

absl::Status PassWriter::Row(const StitchRoot& root, const Position& at) {
  const Op& op = code_.body->op(root.value);
  SINTER_ASSIGN_OR_RETURN(const Emitted value, emitter_.PullOperand(root.value, at));
  const std::string words = Words(op.type.dtype, value.Each());
  const std::string name = RowName(root.value);
  const std::string once = split_ == 1 ? "" : absl::StrCat("if (", Once(), ") ");
  if (op.reduce == ReduceKind::kMean) {
    const int64_t count = ReducedElements(*code_.body, op);
    emitter_.Add(absl::Substitute("$0$1 = add_shares($1, $2, $3);", once, name, words,
                                  FloatText(MeanShare(count))));
    return absl::OkStatus();
  }
  const std::string value_of_words = absl::Substitute("fold<$0>($1)", JoinName(op.reduce), words);
  emitter_.Add(once + TakeText(op, name, value_of_words, ""));
  return absl::OkStatus();
}

absl::Status PassWriter::Column(const StitchRoot& root, const Position& at) {
  if (root.mean >= 0) return Moments(root, at);
  const Op& op = code_.body->op(root.value);
  SINTER_ASSIGN_OR_RETURN(const Emitted value, emitter_.PullOperand(root.value, at));
  std::string share;
  if (op.reduce == ReduceKind::kMean) {
    share = emitter_.NewName("s");
    emitter_.Add(absl::Substitute("const float $0 = mean_share($1);", share,
                                  ColumnText::CountOf(*code_.body, program_, root.value)));
  }
  emitter_.Add(absl::StrCat(
      "if (live) ", emitter_.EachText(),
      TakeText(op, absl::StrCat(ColumnName(root.value), "[j][e]"), value.Each(), share)));
  return absl::OkStatus();
}

// A thread has the same number of units in each of its columns, and counts a unit in its first
// turn. No branch: a unit that is not live changes nothing.
absl::Status PassWriter::Moments(const StitchRoot& root, const Position& at) {
  SINTER_ASSIGN_OR_RETURN(const Emitted value, emitter_.PullOperand(root.mean, at));
  const std::string seen = SeenName(root.value), share = emitter_.NewName("s");
  emitter_.Add(absl::StrCat("if (live && j == 0) ", seen, " += 1.0f;"));
  emitter_.Add(
      absl::StrCat("const float ", share, " = live ? reciprocal_approx(", seen, ") : 0.0f;"));
  const std::string column = absl::StrCat(ColumnName(root.value), "[j][e]");
  emitter_.Add(absl::Substitute("$0$1.take(live ? $2 : $1.mean, $3);", emitter_.EachText(), column,
                                value.Each(), share));
  return absl::OkStatus();
}

// Where lanes cannot join a segment, each reader computes it.
absl::Status PassWriter::Segment(const StitchRoot& root, const Position& at) {
  const Op& op = code_.body->op(root.value);
  const int lanes = SegmentLanes(*code_.body, code_.schedule, op, emitter_.width());
  if (lanes == 0 || split_ > 1) return absl::OkStatus();
  SINTER_ASSIGN_OR_RETURN(const Emitted value, emitter_.PullOperand(root.value, at));
  const std::string words = Words(op.type.dtype, value.Each());
  const std::string name = SegmentName(root.value), join = JoinName(op.reduce);
  const bool mean = op.reduce == ReduceKind::kMean;
  const int64_t count = ReducedElements(*code_.body, op);
  const std::string own =
      mean ? absl::Substitute("add_shares(0.0f, $0, $1)", words, FloatText(MeanShare(count)))
           : absl::Substitute("fold<$0>($1)", join, words);
  emitter_.Add(absl::Substitute("$0[j] = join_lanes<$1, $2>($3);", name, join, lanes, own));
  if (mean && MeanRest(count) != 1) {
    emitter_.Add(absl::StrCat(name, "[j] *= ", FloatText(MeanRest(count)), ";"));
  }
  emitter_.SetSegment(root.value, emitter_.element(), name);
  return absl::OkStatus();
}

// Units that are not live hand over too: their threads read the value back.
absl::Status PassWriter::Hand(const StitchRoot& root, const Position& at) {
  const Op& op = code_.body->op(root.value);
  const bool step = TakesRow(op);
  SINTER_ASSIGN_OR_RETURN(const Emitted value, step ? emitter_.PullOperand(root.value, at)
                                                    : emitter_.Pull(root.value, at));
  const HandedResult to = hands_.ResultOf(phase_, root.value);
  SINTER_ASSIGN_OR_RETURN(const Index place, emitter_.HandedAddress(root.value, at, to));
  const Index address = step ? place.Plus(WordsBeforeRow(*code_.body, op)) : place;
  const int width = emitter_.width();
  const bool next =
      AlongVector(emitter_.space(), address, emitter_.element(), width) == Along::kNext;
  const std::string where = IndexText(emitter_.space(), address, emitter_.element(), !next);
  const std::string words =
      Words(op.type.dtype,
            op.kind == OpKind::kTopK ? absl::StrCat("order_of(", value.Each(), ")") : value.Each());
  emitter_.Add(absl::StrCat(
      split_ == 1 ? "" : absl::StrCat("if (static_cast<int>(threadIdx.x) % ", split_, " == 0) "),
      next ? absl::Substitute("leave_pack<$0, $1>($2 + $3, $4);", to.element, width, to.first,
                              where, words)
           : absl::Substitute("$0$1[$2] = $3::stored($4[e]);", emitter_.EachText(), to.first, where,
                              to.element, words)));
  return absl::OkStatus();
}

// The unit's threads meet before and after each step.
void PassWriter::StepRows(const StitchLoop& loop) {
  for (const StitchRoot& root : loop.roots) {
    const Op& op = code_.body->op(root.value);
    if (root.kind != StitchRoot::kHand || !TakesRow(op)) continue;
    const int64_t count = code_.body->op(op.operands[0]).type.dims.back().value;
    const std::string first = hands_.ResultOf(phase_, root.value).first;
    emitter_.Add(op.kind == OpKind::kScan
                     ? absl::Substitute("sums_of_row<$0>(group, $1);", count, first)
                     : absl::Substitute("largest_of_row<$0, $1>(group, $2);", count,
                                        op.type.dims.back().value, first));
  }
}

void PassWriter::JoinRows(const StitchLoop& loop) {
  std::vector<std::string> partials;
  for (const StitchRoot& root : loop.roots) {
    if (root.kind != StitchRoot::kRow) continue;
    const Op& op = code_.body->op(root.value);
    partials.push_back(absl::StrCat("Partial<", JoinName(op.reduce), ", ", WordName(op.type.dtype),
                                    ">{", RowName(root.value), "}"));
  }
  if (partials.empty()) return;
  emitter_.Add(absl::StrCat("group.reduce(", absl::StrJoin(partials, ", "), ");"));
  for (const StitchRoot& root : loop.roots) {
    if (root.kind != StitchRoot::kRow) continue;
    const Op& op = code_.body->op(root.value);
    const double rest = op.reduce == ReduceKind::kMean ? MeanRest(loop.elements) : 1;
    if (rest != 1) {
      emitter_.Add(absl::StrCat(RowName(root.value), " *= ", FloatText(rest), ";"));
    }
    emitter_.SetRow(root.value, RowName(root.value));
  }
}

IndexVar ElementLoops::Of(const PassShape& shape, IndexSpace& space) {
  for (const ElementLoop& known : loops_) {
    if (known.shape.flat == shape.flat && known.shape.elements == shape.elements &&
        known.shape.width == shape.width && known.shape.symbolic == shape.symbolic &&
        known.shape.split == shape.split) {
      return known.var;
    }
  }
  const IndexVar var = space.AddLoop(shape.flat ? "n" : "i", shape.symbolic ? 0 : shape.elements,
                                     kElementDepth, CountsInts(shape));
  loops_.push_back({shape, var});
  return var;
}

}  // namespace sinter
