#include "src/codegen/stitch/emitter.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "src/base/status.h"
#include "src/codegen/stitch/index_text.h"
#include "src/codegen/stitch/op_text.h"
#include "src/plan/stitch/along.h"
#include "src/plan/stitch/exact_ops.h"
#include "src/plan/stitch/hand_over.h"
#include "src/plan/stitch/segment.h"

namespace sinter {

namespace {

constexpr int64_t kSerialAtOnce = 16;  // reads of a serial reduction under way together
constexpr int64_t kMostLines = 256;    // of an unrolled loop

// How often a loop around `inside` is written out: loops around loops are not.
int64_t Unrolled(int64_t turns, const std::string& inside) {
  if (inside.find("for (") != std::string::npos) return 1;
  const int64_t lines = 1 + std::count(inside.begin(), inside.end(), '\n');
  return std::max<int64_t>(1, std::min({turns, kSerialAtOnce, kMostLines / lines}));
}

bool IsComputed(const Op& op) {
  return op.kind == OpKind::kUnary || op.kind == OpKind::kBinary || op.kind == OpKind::kSelect ||
         op.kind == OpKind::kCast;
}

}  // namespace

StitchEmitter::StitchEmitter(const Chain& body, const StitchProgram& program)
    : body_(body),
      program_(program),
      unit_(space_.AddLoop("u", program.units_symbolic ? 0 : program.units, kUnitDepth)),
      exact_(ExactOps(body)) {}

void StitchEmitter::OpenScope(bool branch) {
  scopes_.emplace_back();
  scopes_.back().branch = branch;
}

std::string StitchEmitter::CloseScope() {
  std::string text = std::move(scopes_.back().text);
  scopes_.pop_back();
  return text;
}

void StitchEmitter::Add(int depth, const std::string& line) {
  const std::string indent(2 * static_cast<size_t>(depth) + 2, ' ');
  absl::StrAppend(&scopes_[static_cast<size_t>(depth)].text, indent, line, "\n");
}

void StitchEmitter::BeginPass(IndexVar element, int width, int number, int split) {
  element_ = element;
  width_ = width;
  pass_ = number;
  split_ = split;
}

void StitchEmitter::SetKept(const Kept& kept) {
  kept_ = kept;
  computed_.clear();
}

std::string StitchEmitter::NewName(const char* prefix) { return absl::StrCat(prefix, names_++); }

std::string StitchEmitter::EachText() const { return absl::StrCat("SINTER_EACH(", width_, ") "); }

Position StitchEmitter::Canonical(const Position& at) {
  Position canonical;
  for (const Index& index : at) canonical.push_back(space_.Canonical(index));
  return canonical;
}

Index StitchEmitter::Address(const Position& at, const std::vector<Stride>& strides) {
  return AddressOf(at, strides, space_);
}

const Emitted* StitchEmitter::Find(const ElementKey& key) const {
  for (const Scope& scope : scopes_) {
    const auto found = scope.known.find(key);
    if (found != scope.known.end()) return &found->second;
  }
  return nullptr;
}

void StitchEmitter::NoteUse(std::map<ElementKey, std::set<int>>& uses, const ElementKey& key) {
  uses[key].insert(pass_);
}

absl::StatusOr<Emitted> StitchEmitter::Pull(ValueId id, const Position& at) {
  const ElementKey key = {id, Canonical(at)};
  if (const Emitted* found = Find(key)) return *found;
  const auto alike = kept_.alike.find(key);
  if (alike != kept_.alike.end()) {
    return Emitted{absl::StrCat(alike->second, "[j]"), true, kElementDepth, false};
  }
  const auto kept = kept_.values.find(key);
  if (kept != kept_.values.end() && computed_.count(key) > 0) {
    return Emitted{absl::StrCat(kept->second, "[j]"), true, kElementDepth};
  }
  SINTER_ASSIGN_OR_RETURN(Emitted value, Compute(id, at));
  if (value.vector && value.depth == kElementDepth && value.of_unit && IsComputed(body_.op(id))) {
    NoteUse(used_.values, key);
    if (kept != kept_.values.end()) {
      Add(value.depth, absl::StrCat(EachText(), kept->second, "[j][e] = ", value.Each(), ";"));
      computed_.insert(key);
    }
  }
  scopes_[static_cast<size_t>(value.depth)].known[key] = value;
  return value;
}

absl::StatusOr<Emitted> StitchEmitter::PullOperand(ValueId id, const Position& at) {
  return Pull(body_.op(id).operands[0], at);
}

absl::StatusOr<Emitted> StitchEmitter::Compute(ValueId id, const Position& at) {
  const auto handed = handed_.find(id);
  if (handed != handed_.end()) return Handed(id, at, handed->second);
  const Op& op = body_.op(id);
  switch (op.kind) {
    case OpKind::kInput:
      return Load(id, at);
    case OpKind::kScalar:
      return Emitted{ScalarText(op), false, kPhaseDepth, false};
    case OpKind::kIota:
      return Counted(op, at);
    case OpKind::kConcat:
      return Joined(id, at);
    case OpKind::kMatmul:
      return Serial(id, at);
    case OpKind::kReduce: {
      const ReduceUse use = program_.uses[static_cast<size_t>(id)];
      if (use == ReduceUse::kColumn) return Column(id, at);
      const auto row = rows_.find(id);
      if (use == ReduceUse::kRow && row != rows_.end() && IsOfUnit(op, at, unit_, space_)) {
        return Emitted{row->second, false, kUnitDepth};
      }
      const auto segment = segments_.find({id, element_});
      if (segment != segments_.end() &&
          IsOfSegment(body_, program_, op, at, unit_, element_, space_)) {
        return Emitted{absl::StrCat(segment->second, "[j]"), false, kElementDepth};
      }
      return Serial(id, at);
    }
    case OpKind::kBroadcast:
    case OpKind::kTranspose:
    case OpKind::kReshape:
    case OpKind::kSlice:
      return Pull(op.operands[0], PullPosition(body_, op, 0, at, space_));
    default:
      return Elementwise(id, at);
  }
}

bool StitchEmitter::MovesWithUnit(const Index& index) { return space_.MovesWith(index, unit_); }

Emitted StitchEmitter::Declare(const char* word, const std::string& expression, bool vector,
                               int depth, bool of_unit) {
  const std::string name = NewName(vector ? "v" : "s");
  if (vector) {
    Add(depth, absl::StrCat(word, " ", name, "[", width_, "];"));
    Add(depth, absl::StrCat(EachText(), name, "[e] = ", expression, ";"));
  } else {
    Add(depth, absl::StrCat("const ", word, " ", name, " = ", expression, ";"));
  }
  return {name, vector, depth, of_unit};
}

// Nothing is read before the branch that it belongs to is taken.
int StitchEmitter::LoadDepth(const Index& index) const {
  int depth = space_.Depth(index);
  for (size_t i = 0; i < scopes_.size(); ++i) {
    if (scopes_[i].branch) depth = std::max(depth, static_cast<int>(i));
  }
  return depth;
}

absl::StatusOr<Emitted> StitchEmitter::Load(ValueId id, const Position& at) {
  const Op& op = body_.op(id);
  const Index address = Address(at, op.strides);
  const std::string base = absl::StrCat("in", op.input);
  const int depth = LoadDepth(address);
  const Along along = AlongVector(space_, address, element_, width_);
  const std::string element = ElementTypeName(op.type.dtype);
  if (along == Along::kUniform) {
    return Declare(WordName(op.type.dtype),
                   absl::StrCat(element, "::word(", base, "[",
                                IndexText(space_, address, element_, false), "])"),
                   false, depth, MovesWithUnit(address));
  }
  if (along == Along::kScattered) {
    return Declare(WordName(op.type.dtype),
                   absl::StrCat(element, "::word(", base, "[",
                                IndexText(space_, address, element_, true), "])"),
                   true, depth, MovesWithUnit(address));
  }
  const ElementKey key = {id, Canonical(at)};
  if (depth == kElementDepth) {
    NoteUse(used_.inputs, key);
    const auto kept = kept_.inputs.find(key);
    if (kept != kept_.inputs.end()) {
      return Emitted{absl::StrCat(kept->second, "[j]"), true, depth, MovesWithUnit(address)};
    }
  }
  const std::string name = NewName("p");
  Add(depth, absl::StrCat("const auto ", name, " = load_pack<", element, ", ", width_, ">(", base,
                          " + ", IndexText(space_, address, element_, false), ");"));
  return Emitted{name, true, depth, MovesWithUnit(address)};
}

absl::StatusOr<Emitted> StitchEmitter::Counted(const Op& op, const Position& at) {
  const Index index = space_.Canonical(at[static_cast<size_t>(op.axis)]);
  const bool vector = AlongVector(space_, index, element_, width_) != Along::kUniform;
  const char* word = WordName(op.type.dtype);
  return Declare(
      word,
      absl::StrCat("static_cast<", word, ">(", IndexText(space_, index, element_, vector), ")"),
      vector, space_.Depth(index), MovesWithUnit(index));
}

absl::StatusOr<Emitted> StitchEmitter::Elementwise(ValueId id, const Position& at) {
  const Op& op = body_.op(id);
  if (op.kind == OpKind::kCast && !CastRounds(body_, op)) {
    return Pull(op.operands[0], PullPosition(body_, op, 0, at, space_));
  }
  std::vector<Emitted> operands;
  std::vector<std::string> names;
  bool vector = false, of_unit = false;
  int depth = kPhaseDepth;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Position from = PullPosition(body_, op, i, at, space_);
    SINTER_ASSIGN_OR_RETURN(const Emitted operand, Pull(op.operands[i], from));
    used_.reads[{op.operands[i], Canonical(from)}].insert({id, Canonical(at)});
    operands.push_back(operand);
    names.push_back(operand.Each());
    vector |= operand.vector;
    of_unit |= operand.of_unit;
    depth = std::max(depth, operand.depth);
  }
  for (size_t i = 0; of_unit && i < operands.size(); ++i) {
    if (operands[i].of_unit || !operands[i].vector || operands[i].depth != kElementDepth) continue;
    const Position from = PullPosition(body_, op, i, at, space_);
    NoteUse(used_.alike, {op.operands[i], Canonical(from)});
  }
  const bool exact = exact_[static_cast<size_t>(id)];
  return Declare(WordName(op.type.dtype), OpText(body_, op, names, exact), vector, depth, of_unit);
}

absl::StatusOr<Emitted> StitchEmitter::Joined(ValueId id, const Position& at) {
  const Op& op = body_.op(id);
  const size_t axis = static_cast<size_t>(op.axis);
  const Index place = space_.Canonical(at[axis]);
  if (AlongVector(space_, place, element_, width_) == Along::kScattered) {
    return absl::FailedPreconditionError(
        absl::StrCat("op ", id, " (concat): vectors of ", width_, " cross its borders"));
  }
  struct Side {
    std::string text, value;
    int64_t end;
  };
  std::vector<Side> sides;
  bool vector = false;
  int64_t end = 0;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    OpenScope(true);
    const absl::StatusOr<Emitted> value =
        Pull(op.operands[i], PullPosition(body_, op, i, at, space_));
    std::string text = CloseScope();
    SINTER_RETURN_IF_ERROR(value.status());
    vector |= value->vector;
    end += body_.op(op.operands[i]).type.dims[axis].value;
    sides.push_back({std::move(text), value->Each(), end});
  }
  const std::string name = NewName("v");
  const int depth = static_cast<int>(scopes_.size()) - 1;
  Add(absl::StrCat(WordName(op.type.dtype), " ", name,
                   vector ? absl::StrCat("[", width_, "];") : ";"));
  const std::string where = IndexText(space_, place, element_, false);
  for (size_t i = 0; i < sides.size(); ++i) {
    const bool last = i + 1 == sides.size();
    Add(absl::StrCat(i == 0 ? "" : "} else ",
                     last ? "{" : absl::StrCat("if (", where, " < ", sides[i].end, ") {")));
    scopes_.back().text += sides[i].text;
    Add(absl::StrCat("  ", vector ? absl::StrCat(EachText(), name, "[e]") : name, " = ",
                     sides[i].value, ";"));
  }
  Add("}");
  return Emitted{name, vector, depth};
}

absl::StatusOr<Emitted> StitchEmitter::Product(ValueId id, const Position& at, const Index& k) {
  const Op& op = body_.op(id);
  Emitted factors[2];
  for (size_t i = 0; i < 2; ++i) {
    SINTER_ASSIGN_OR_RETURN(factors[i], Pull(op.operands[i], PullFactor(body_, op, i, at, k)));
  }
  const bool vector = factors[0].vector || factors[1].vector;
  return Declare(WordName(op.type.dtype), absl::StrCat(factors[0].Each(), " * ", factors[1].Each()),
                 vector, std::max(factors[0].depth, factors[1].depth),
                 factors[0].of_unit || factors[1].of_unit);
}

absl::StatusOr<Emitted> StitchEmitter::Reduced(ValueId id, const Position& at, IndexVar k) {
  const Op& op = body_.op(id);
  if (op.kind == OpKind::kMatmul) return Product(id, at, Index::Of(k));
  return Pull(op.operands[0], PullReduced(body_, op, at, k, space_));
}

void StitchEmitter::OpenSerialLoop(const std::string& counter, int64_t count, int lanes,
                                   const std::string& inside) {
  const int64_t turns = (count + lanes - 1) / lanes;
  const std::string turn = lanes == 1 ? counter : absl::StrCat(counter, "t");
  Add(absl::StrCat("#pragma unroll ", Unrolled(turns, inside)));
  Add(absl::StrCat("for (int ", turn, " = 0; ", turn, " < ", turns, "; ++", turn, ") {"));
  if (lanes == 1) return;
  Add(absl::StrCat("  const int ", counter, " = ", turn, " * ", lanes,
                   " + static_cast<int>(threadIdx.x) % ", lanes, ";"));
  if (count % lanes != 0) Add(absl::StrCat("  if (", counter, " >= ", count, ") continue;"));
}

// In the outermost scope of the pass where the place of its result is known.
absl::StatusOr<Emitted> StitchEmitter::Serial(ValueId id, const Position& at) {
  int home = kElementDepth;
  for (const Index& index : at) home = std::max(home, LoadDepth(index));
  const size_t kept = std::min(scopes_.size(), static_cast<size_t>(home) + 1);
  std::vector<Scope> inner(std::make_move_iterator(scopes_.begin() + static_cast<int64_t>(kept)),
                           std::make_move_iterator(scopes_.end()));
  scopes_.resize(kept);
  // Of an element's reductions, lanes share those that no other surrounds.
  const int lanes = home == kElementDepth || !in_serial_ ? split_ : 1;
  const bool surrounded = std::exchange(in_serial_, true);
  const absl::StatusOr<Emitted> value = SerialHere(id, at, lanes);
  in_serial_ = surrounded;
  scopes_.insert(scopes_.end(), std::make_move_iterator(inner.begin()),
                 std::make_move_iterator(inner.end()));
  return value;
}

absl::StatusOr<Emitted> StitchEmitter::SerialHere(ValueId id, const Position& at, int lanes) {
  const Op& op = body_.op(id);
  const int64_t count = ReducedElements(body_, op);
  if (count == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("op ", id, " (", NameOf(op), "): M elements in one thread"));
  }
  const std::string counter = NewName("k");
  const IndexVar loop = space_.AddLoop(counter, count, static_cast<int>(scopes_.size()));
  OpenScope();
  const absl::StatusOr<Emitted> value = Reduced(id, at, loop);
  const std::string inside = CloseScope();
  SINTER_RETURN_IF_ERROR(value.status());
  const char* word = WordName(op.type.dtype);
  const std::string name = NewName("v"),
                    join = op.kind == OpKind::kMatmul ? "Sum" : JoinName(op.reduce);
  const std::string each = value->vector ? EachText() : "", at_e = value->vector ? "[e]" : "";
  Add(absl::StrCat(word, " ", name, value->vector ? absl::StrCat("[", width_, "];") : ";"));
  Add(absl::StrCat(each, name, at_e, " = ", join, "::empty(", word, "{});"));
  OpenSerialLoop(counter, count, lanes, inside);
  scopes_.back().text += inside;
  Add(absl::StrCat("  ", each, name, at_e, " = ", join, "::join<", word, ">(", name, at_e, ", ",
                   value->Each(), ");"));
  Add("}");
  if (lanes > 1) {
    Add(absl::StrCat(each, name, at_e, " = join_lanes<", join, ", ", lanes, ">(", name, at_e,
                     ");"));
  }
  if (op.kind == OpKind::kReduce && op.reduce == ReduceKind::kMean) {
    Add(absl::StrCat(each, name, at_e, " *= ", FloatText(1.0 / static_cast<double>(count)), ";"));
  }
  return Emitted{name, value->vector, static_cast<int>(scopes_.size()) - 1};
}

absl::StatusOr<Emitted> StitchEmitter::Column(ValueId id, const Position& at) {
  const Op& op = body_.op(id);
  const Index index = space_.Canonical(LinearIndex(op.type.dims, at));
  const Along along = AlongVector(space_, index, element_, width_);
  const ColumnResults& results = columns_.at(id);
  const bool vector = along != Along::kUniform;
  const std::string where = IndexText(space_, index, element_, along == Along::kScattered);
  const int depth = LoadDepth(index);
  if (along != Along::kNext) {
    return Declare(
        WordName(op.type.dtype),
        absl::StrCat(results.shared ? "*(" : "__ldcg(", results.first, " + ", where, ")"), vector,
        depth, MovesWithUnit(index));
  }
  const std::string name = NewName("p");
  Add(depth, absl::StrCat("const auto ", name, " = load_pack<", ElementTypeName(op.type.dtype),
                          ", ", width_, ">(", results.first, " + ", where, ");"));
  return Emitted{name, true, depth, MovesWithUnit(index)};
}

absl::StatusOr<Index> StitchEmitter::HandedAddress(ValueId id, const Position& at,
                                                   const HandedResult& result) {
  const Op& op = body_.op(id);
  const auto place = PlaceInUnit(program_, op.type.dims, at, unit_, space_);
  if (!place.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat("op ", id, " (", NameOf(op), "): handed over and read by other units"));
  }
  Index address;
  for (size_t i = 0; i < place->size(); ++i) {
    address = address.Plus((*place)[i].Times(result.strides[i]));
  }
  return space_.Canonical(address);
}

absl::StatusOr<Emitted> StitchEmitter::Handed(ValueId id, const Position& at,
                                              const HandedResult& result) {
  SINTER_ASSIGN_OR_RETURN(const Index address, HandedAddress(id, at, result));
  const char* word = WordName(body_.op(id).type.dtype);
  const Along along = AlongVector(space_, address, element_, width_);
  const int depth = std::max(kUnitDepth, LoadDepth(address));
  const std::string where = IndexText(space_, address, element_, along == Along::kScattered);
  if (along != Along::kNext) {
    return Declare(word, absl::StrCat(result.element, "::word(", result.first, "[", where, "])"),
                   along == Along::kScattered, depth, true);
  }
  const std::string name = NewName("p");
  Add(depth, absl::StrCat("const auto ", name, " = load_pack<", result.element, ", ", width_, ">(",
                          result.first, " + ", where, ");"));
  return Emitted{name, true, depth, true};
}

}  // namespace sinter
