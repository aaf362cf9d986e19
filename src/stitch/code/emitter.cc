#include "src/stitch/code/emitter.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/substitute.h"
#include "src/base/status.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/code/stitch_source.h"
#include "src/stitch/index.h"
#include "src/stitch/phases.h"
#include "src/stitch/program.h"

namespace sinter {
namespace {

bool IsComputed(const Op& op) {
  return op.kind == OpKind::kUnary || op.kind == OpKind::kBinary || op.kind == OpKind::kSelect ||
         op.kind == OpKind::kCast || op.kind == OpKind::kGather || op.kind == OpKind::kRandom;
}

}  // namespace

StitchEmitter::StitchEmitter(const Chain& body, const StitchProgram& program)
    : body_(body),
      program_(program),
      unit_(space().AddLoop("u", program.units_symbolic ? 0 : program.units, kUnitDepth,
                            UnitsAreInts(program))),
      precisions_(PrecisionsOf(body)),
      alone_(SubtractsAlone(body, false)),
      serial_(body, *this) {}

void StitchEmitter::BeginPass(IndexVar element, int width, int number, int split) {
  SetVectors(element, width);
  serial_.SetLanes(split);
  pass_ = number;
}

void StitchEmitter::SetKept(const Kept& kept) {
  kept_ = kept;
  computed_.clear();
}

Index StitchEmitter::Address(const Position& at, const std::vector<Stride>& strides) {
  return AddressOf(at, strides, space());
}

// What an id selects is read again, because the id's name is known only in its own scope.
void StitchEmitter::NoteUse(std::map<ElementKey, std::set<int>>& uses, const ElementKey& key) {
  if (!space().ReadsIn(key.second).empty()) return;
  uses[key].insert(pass_);
}

absl::StatusOr<Emitted> StitchEmitter::Pull(ValueId id, const Position& at) {
  const ElementKey key = {id, space().Canonical(at)};
  if (const Emitted* found = Find(key)) return *found;
  const auto alike = kept_.alike.find(key);
  if (alike != kept_.alike.end()) {
    return Emitted{absl::StrCat(alike->second, "[j]"), true, kElementDepth, false};
  }
  const auto kept = kept_.values.find(key);
  if (kept != kept_.values.end() && computed_.count(key) > 0) {
    return Emitted{absl::StrCat(kept->second, "[j]"), true, kElementDepth};
  }
  if (reads_back_ != nullptr && BackOf(*reads_back_, id) != nullptr) {
    const Emitted read = Read(id, at);
    Remember(key, read);
    return read;
  }
  SINTER_ASSIGN_OR_RETURN(Emitted value, Compute(id, at));
  if (value.vector && value.depth == kElementDepth && value.of_unit && IsComputed(body_.op(id))) {
    NoteUse(used_.values, key);
    if (kept != kept_.values.end()) {
      Add(value.depth, absl::StrCat(EachText(), kept->second, "[j][e] = ", value.Each(), ";"));
      computed_.insert(key);
    }
  }
  Remember(key, value);
  return value;
}

absl::StatusOr<Emitted> StitchEmitter::PullOperand(ValueId id, const Position& at) {
  const ValueId operand = body_.op(id).operands[0];
  const Position canonical = space().Canonical(at);
  used_.reads[{operand, canonical}].insert({id, canonical});
  return Pull(operand, at);
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
    case OpKind::kGather:
      return Gathered(id, at);
    case OpKind::kWindow:
      return Windowed(id, at);
    case OpKind::kRandom:
      return Drawn(op, at);
    case OpKind::kTopK:
    case OpKind::kScan:
      return FailedPrecondition("op ", id, " (", NameOf(op), "): read before its unit has made it");
    case OpKind::kMatmul:
      return serial_.Result(id, at);
    case OpKind::kReduce: {
      const ReduceUse use = program_.uses[static_cast<size_t>(id)];
      if (use == ReduceUse::kColumn) return Column(id, at);
      const auto row = rows_.find(id);
      if (use == ReduceUse::kRow && row != rows_.end() && IsOfUnit(op, at, unit_, space())) {
        return Emitted{row->second, false, kUnitDepth};
      }
      const auto segment = segments_.find({id, element()});
      if (segment != segments_.end() &&
          IsOfSegment(body_, program_, op, at, unit_, element(), space())) {
        return Emitted{absl::StrCat(segment->second, "[j]"), false, kElementDepth};
      }
      return serial_.Result(id, at);
    }
    default:
      return IsView(op) ? Pull(op.operands[0], PullPosition(body_, op, 0, at, space()))
                        : Elementwise(id, at);
  }
}

bool StitchEmitter::MovesWithUnit(const Index& index) { return space().MovesWith(index, unit_); }

std::map<ValueId, std::string> StitchEmitter::TakeStaged() {
  staged_.clear();
  return std::move(staged_from_);
}

absl::StatusOr<Emitted> StitchEmitter::Load(ValueId id, const Position& at) {
  const auto chosen = chosen_.find({id, space().Canonical(at)});
  if (chosen != chosen_.end()) return chosen->second;
  const auto staged = staged_.find(id);
  if (staged == staged_.end()) return Read(id, at);
  const Op& op = body_.op(id);
  staged_from_[id] = IndexText(space(), Address(at, op.strides), element(), false);
  return DeclarePack(ElementTypeName(op.type.dtype), staged->second.first,
                     absl::StrCat(staged->second.place,
                                  IndexText(space(), Index::Of(element()), element(), false), ")"),
                     kElementDepth, true);
}

MemoryPlace StitchEmitter::PlaceOf(ValueId id) const {
  const Op& op = body_.op(id);
  if (op.kind == OpKind::kInput) return {absl::StrCat("in", op.input), &op.strides};
  for (size_t i = 0; i < body_.outputs().size(); ++i) {
    const ChainOutput& output = body_.outputs()[i];
    if (output.value == id && output.alias_input < 0)
      return {absl::StrCat("out", i), &output.strides};
  }
  return {};
}

ElementKey StitchEmitter::NoteLeft(ValueId id, const Position& at) {
  return *used_.left.insert({id, space().Canonical(at)}).first;
}

// From memory.
Emitted StitchEmitter::Read(ValueId id, const Position& at) {
  const MemoryPlace place = PlaceOf(id);
  const DType dtype = body_.op(id).type.dtype;
  const Index address = Address(at, *place.strides);
  const int depth = LoadDepth(address);
  const Along along = AlongVector(space(), address, element(), width());
  const std::string type = ElementTypeName(dtype);
  if (along != Along::kNext) {
    const bool vector = along == Along::kScattered;
    return Declare(WordName(dtype),
                   absl::StrCat(type, "::word(", place.first, "[",
                                IndexText(space(), address, element(), vector), "])"),
                   vector, depth, MovesWithUnit(address));
  }
  const ElementKey key = {id, space().Canonical(at)};
  if (depth == kElementDepth) {
    NoteUse(used_.inputs, key);
    const auto kept = kept_.inputs.find(key);
    if (kept != kept_.inputs.end()) {
      return Emitted{absl::StrCat(kept->second, "[j]"), true, depth, MovesWithUnit(address)};
    }
  }
  return DeclarePack(type, place.first, IndexText(space(), address, element(), false), depth,
                     MovesWithUnit(address));
}

absl::StatusOr<Emitted> StitchEmitter::Counted(const Op& op, const Position& at) {
  const Index index = space().Canonical(at[static_cast<size_t>(op.axis)]);
  const bool vector = AlongVector(space(), index, element(), width()) != Along::kUniform;
  const char* word = WordName(op.type.dtype);
  return Declare(
      word,
      absl::StrCat("static_cast<", word, ">(", IndexText(space(), index, element(), vector), ")"),
      vector, space().Depth(index), MovesWithUnit(index));
}

absl::StatusOr<Emitted> StitchEmitter::Drawn(const Op& op, const Position& at) {
  SINTER_ASSIGN_OR_RETURN(const Emitted seed,
                          Pull(op.operands[0], PullPosition(body_, op, 0, at, space())));
  SINTER_ASSIGN_OR_RETURN(const Emitted offset,
                          Pull(op.operands[1], PullPosition(body_, op, 1, at, space())));
  const auto first = static_cast<std::ptrdiff_t>(LeadingRankOf(body_, op));
  const Index index = space().Canonical(LinearIndex(
      {op.type.dims.begin() + first, op.type.dims.end()}, Position(at.begin() + first, at.end())));
  const bool moves = AlongVector(space(), index, element(), width()) != Along::kUniform;
  return Declare("float",
                 absl::StrCat("uniform_at(", seed.Each(), ", ", offset.Each(), ", ",
                              IndexText(space(), index, element(), moves), ")"),
                 moves || seed.vector || offset.vector,
                 std::max({seed.depth, offset.depth, LoadDepth(index)}),
                 MovesWithUnit(index) || seed.of_unit || offset.of_unit);
}

Compound StitchEmitter::Compounded(ValueId id) const {
  Compound compound = CompoundAt(body_, precisions_, id);
  for (size_t i = 1; i < compound.path.size(); ++i) {
    if (handed_.count(compound.path[i].first) > 0) return {};
  }
  return compound;
}

absl::StatusOr<Emitted> StitchEmitter::Elementwise(ValueId id, const Position& at) {
  const Op& op = body_.op(id);
  if (op.kind == OpKind::kCast && !CastRounds(body_, op)) {
    return Pull(op.operands[0], PullPosition(body_, op, 0, at, space()));
  }
  struct Operand {
    ValueId id;
    Position at;
    Emitted value;
  };
  std::vector<Operand> operands;
  const Compound compound = Compounded(id);
  if (compound.function != Compound::kNone) {
    Position place = at;
    for (const auto& [inner, i] : compound.path) {
      place = PullPosition(body_, body_.op(inner), i, place, space());
    }
    const auto& [last, i] = compound.path.back();
    operands.push_back({body_.op(last).operands[i], std::move(place), {}});
  } else {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      operands.push_back({op.operands[i], PullPosition(body_, op, i, at, space()), {}});
    }
  }
  std::vector<std::string> names;
  bool vector = false, of_unit = false;
  int depth = kPhaseDepth;
  for (Operand& operand : operands) {
    SINTER_ASSIGN_OR_RETURN(operand.value, Pull(operand.id, operand.at));
    used_.reads[{operand.id, space().Canonical(operand.at)}].insert({id, space().Canonical(at)});
    names.push_back(operand.value.Each());
    vector |= operand.value.vector;
    of_unit |= operand.value.of_unit;
    depth = std::max(depth, operand.value.depth);
  }
  for (const Operand& operand : operands) {
    const Emitted& value = operand.value;
    if (!of_unit || value.of_unit || !value.vector || value.depth != kElementDepth) continue;
    NoteUse(used_.alike, {operand.id, space().Canonical(operand.at)});
  }
  const char* word = WordName(op.type.dtype);
  if (compound.function != Compound::kNone) {
    return Declare(word, CompoundText(compound, names[0]), vector, depth, of_unit);
  }
  const Precision precision = precisions_[static_cast<size_t>(id)];
  const DType operand = body_.op(op.operands[0]).type.dtype;
  const bool alone = alone_[static_cast<size_t>(id)];
  return Declare(word, OpText(op, operand, names, precision, alone), vector, depth, of_unit);
}

// An input whose elements lie side by side along the vector, read where `where` holds, else `fill`:
// a read under a condition, not a branch. None where it must be read in another way, or may be
// stored over. `value`: what `where` and `fill` depend on.
std::optional<Emitted> StitchEmitter::ReadWhere(const std::string& where, const std::string& fill,
                                                ValueId id, Position at, Emitted value) {
  while (IsView(body_.op(id)) && handed_.count(id) == 0) {
    at = PullPosition(body_, body_.op(id), 0, at, space());
    id = body_.op(id).operands[0];
  }
  const Op& x = body_.op(id);
  if (x.kind != OpKind::kInput || staged_.count(id) > 0) return std::nullopt;
  for (const ChainOutput& output : body_.outputs()) {
    if (output.alias_input == x.input) return std::nullopt;
  }
  const Index address = Address(at, x.strides);
  if (AlongVector(space(), address, element(), width()) != Along::kNext) return std::nullopt;
  value.name = NewName("p");
  value.vector = true;
  value.depth = std::max(value.depth, LoadDepth(address));
  value.of_unit |= MovesWithUnit(address);
  Add(value.depth, absl::Substitute("const auto $0 = load_pack_or<$1, $2>($3, in$4 + $5, $6);",
                                    value.name, ElementTypeName(x.type.dtype), width(), where,
                                    x.input, IndexText(space(), address, element(), false), fill));
  return value;
}

// The element that the id names, else 0. If it does not name a place, a value that is not an input
// is read at the axis's first place, and then dropped. So no read waits for a branch.
absl::StatusOr<Emitted> StitchEmitter::Gathered(ValueId id, const Position& at) {
  const Op& op = body_.op(id);
  const Dim extent = body_.op(op.operands[0]).type.dims[static_cast<size_t>(op.axis)];
  const std::string count = extent.symbolic ? "m" : absl::StrCat(extent.value);
  SINTER_ASSIGN_OR_RETURN(const Emitted ids,
                          Pull(op.operands[1], PullPosition(body_, op, 1, at, space())));
  const IndexVar read = ReadOfIds(body_, op, at, space());
  if (NamesAPlace(body_, op)) {
    const Emitted place = Declare("long long", ids.Each(), ids.vector, ids.depth, ids.of_unit);
    const bool one = place.vector && width() == 1;
    space().NameRead(read, one ? absl::StrCat(place.name, "[0]") : place.Each(), place.depth);
    return Pull(op.operands[0], PullPosition(body_, op, 0, at, space()));
  }
  const char* word = WordName(op.type.dtype);
  if (!ids.vector) {
    const std::string where = absl::StrCat("is_place(", ids.name, ", ", count, ")");
    space().NameRead(read, absl::StrCat("static_cast<long long>(", ids.name, ")"), ids.depth);
    const std::optional<Emitted> inside =
        ReadWhere(where, absl::StrCat(word, "{}"), op.operands[0],
                  PullPosition(body_, op, 0, at, space()), {"", true, ids.depth, ids.of_unit});
    if (inside.has_value()) return *inside;
  }
  const Emitted place =
      Declare("long long", absl::StrCat("place_of(", ids.Each(), ", ", count, ")"), ids.vector,
              ids.depth, ids.of_unit);
  const bool one = place.vector && width() == 1;  // is named outside of loops over elements, too
  space().NameRead(read, one ? absl::StrCat(place.name, "[0]") : place.Each(), place.depth);
  const Position from = PullPosition(body_, op, 0, at, space());
  SINTER_ASSIGN_OR_RETURN(const Emitted x, extent.symbolic ? ReadIfRows(op.operands[0], from)
                                                           : Pull(op.operands[0], from));
  return Declare(
      word, absl::StrCat("is_place(", ids.Each(), ", ", count, ") ? ", x.Each(), " : ", word, "{}"),
      x.vector || ids.vector, std::max(x.depth, ids.depth), x.of_unit || ids.of_unit);
}

Emitted StitchEmitter::Inside(ValueId window, const Index& place, size_t axis) {
  const Op& op = body_.op(window);
  const Index index = space().Canonical(place);
  const ElementKey key = {window, {index, Index(static_cast<int64_t>(axis))}};
  if (const Emitted* found = Find(key)) return *found;
  const int64_t extent = body_.op(op.operands[0]).type.dims[1 + axis].value;
  const bool vector = AlongVector(space(), index, element(), width()) != Along::kUniform;
  const Emitted inside = Declare(
      "bool",
      absl::StrCat("is_inside(", IndexText(space(), index, element(), vector), ", ", extent, ")"),
      vector, LoadDepth(index), MovesWithUnit(index));
  Remember(key, inside);
  return inside;
}

// An input is read where a tap meets a pixel. For another value, if a tap meets no pixel, the
// nearest pixel is computed and then dropped: no read waits for a branch.
absl::StatusOr<Emitted> StitchEmitter::Windowed(ValueId id, const Position& at) {
  const Op& op = body_.op(id);
  const WindowPixel pixel = PixelOf(op, at);
  const Position from = PullPosition(body_, op, 0, at, space());
  std::vector<Emitted> inside;
  if (!(from[1] == pixel.row)) inside.push_back(Inside(id, pixel.row, 0));
  if (!(from[2] == pixel.column)) inside.push_back(Inside(id, pixel.column, 1));
  if (inside.empty()) return Pull(op.operands[0], from);
  // Several taps of several results meet one pixel.
  const Position place = {at[0], pixel.row, pixel.column, at[5]};
  const ElementKey key = {id, space().Canonical(place)};
  if (const Emitted* found = Find(key)) return *found;
  SINTER_ASSIGN_OR_RETURN(const Emitted fill, Pull(op.operands[1], {}));
  const bool uniform =
      std::none_of(inside.begin(), inside.end(), [](const Emitted& one) { return one.vector; });
  Emitted value{"", uniform ? fill.vector : true, fill.depth, fill.of_unit};
  std::vector<std::string> names;
  for (const Emitted& one : inside) {
    value.of_unit |= one.of_unit;
    value.depth = std::max(value.depth, one.depth);
    names.push_back(one.Each());
  }
  const std::string where = absl::StrJoin(names, " && ");
  if (uniform && !fill.vector && body_.op(op.operands[0]).kind == OpKind::kInput) {
    const std::optional<Emitted> read = ReadWhere(where, fill.name, op.operands[0], place, value);
    if (read.has_value()) {
      Remember(key, *read);
      return *read;
    }
  }
  SINTER_ASSIGN_OR_RETURN(const Emitted nearest, Pull(op.operands[0], from));
  value = Declare(WordName(op.type.dtype),
                  absl::StrCat(where, " ? ", nearest.Each(), " : ", fill.Each()),
                  value.vector || nearest.vector, std::max(value.depth, nearest.depth),
                  value.of_unit || nearest.of_unit);
  Remember(key, value);
  return value;
}

// A value at a place among M rows, of which there may be none.
absl::StatusOr<Emitted> StitchEmitter::ReadIfRows(ValueId id, const Position& at) {
  OpenScope(true);
  const absl::StatusOr<Emitted> value = Pull(id, at);
  const std::string text = CloseScope();
  SINTER_RETURN_IF_ERROR(value.status());
  const std::string name = NewName("v");
  const char* word = WordName(body_.op(id).type.dtype);
  Add(absl::StrCat(word, " ", name, value->vector ? absl::StrCat("[", width(), "]") : "", "{};"));
  Add("if (m > 0) {");
  Append(text);
  Add(absl::StrCat("  ", value->vector ? absl::StrCat(EachText(), name, "[e]") : name, " = ",
                   value->Each(), ";"));
  Add("}");
  return Emitted{name, value->vector, innermost()};
}

absl::StatusOr<Emitted> StitchEmitter::Column(ValueId id, const Position& at) {
  const Op& op = body_.op(id);
  const Index index = space().Canonical(LinearIndex(op.type.dims, at));
  const Along along = AlongVector(space(), index, element(), width());
  const ColumnResults& results = columns_.at(id);
  const bool vector = along != Along::kUniform;
  const std::string where = IndexText(space(), index, element(), along == Along::kScattered);
  const int depth = LoadDepth(index);
  if (along != Along::kNext) {
    return Declare(
        WordName(op.type.dtype),
        absl::StrCat(results.shared ? "*(" : "__ldcg(", results.first, " + ", where, ")"), vector,
        depth, MovesWithUnit(index));
  }
  return DeclarePack(WordElement(op.type.dtype), results.first, where, depth, MovesWithUnit(index));
}

absl::StatusOr<Index> StitchEmitter::HandedAddress(ValueId id, const Position& at,
                                                   const HandedResult& result) {
  const Op& op = body_.op(id);
  const auto place = PlaceInUnit(program_, op.type.dims, at, unit_, space());
  if (!place.has_value()) {
    return FailedPrecondition("op ", id, " (", NameOf(op),
                              "): handed over and read by other units");
  }
  Index address;
  for (size_t i = 0; i < place->size(); ++i) {
    address = address.Plus((*place)[i].Times(result.strides[i]));
  }
  return space().Canonical(address);
}

absl::StatusOr<Emitted> StitchEmitter::Handed(ValueId id, const Position& at,
                                              const HandedResult& result) {
  SINTER_ASSIGN_OR_RETURN(const Index address, HandedAddress(id, at, result));
  const char* word = WordName(body_.op(id).type.dtype);
  const Along along = AlongVector(space(), address, element(), width());
  const int depth = std::max(kUnitDepth, LoadDepth(address));
  const std::string where = IndexText(space(), address, element(), along == Along::kScattered);
  if (along != Along::kNext) {
    return Declare(word, absl::StrCat(result.element, "::word(", result.first, "[", where, "])"),
                   along == Along::kScattered, depth, true);
  }
  return DeclarePack(result.element, result.first, where, depth, true);
}

}  // namespace sinter
