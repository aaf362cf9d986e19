#include "src/stitch/code/hand_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/code/stitch_source.h"
#include "src/stitch/program.h"
#include "src/stitch/sectors.h"
#include "src/stitch/sizes.h"

namespace sinter {
namespace {

constexpr int kWarp = 32;
constexpr int64_t kHandsAlignment = 16;

// "Staged<32, 64, 8, 8, 7>": the layout.
std::string LayoutName(const StagedPlace& place, int units) {
  return absl::Substitute("Staged<$0, $1, $2, $3, $4>", units, place.elements, place.wide,
                          place.chunk, place.mask);
}

// A lambda that gives the id of a number. In the innermost scope.
absl::StatusOr<std::string> IdAt(const Chain& body, StitchEmitter& emitter, ValueId ids) {
  const std::string counter = emitter.NewName("k");
  const IndexVar k = emitter.space().AddLoop(counter, 0, emitter.innermost() + 1);
  emitter.OpenScope();
  const absl::StatusOr<Emitted> id =
      emitter.Pull(ids, PositionIn(body.op(ids).type.dims, k, emitter.space()));
  const std::string inside = emitter.CloseScope();
  SINTER_RETURN_IF_ERROR(id.status());
  return absl::StrCat("[&](long long ", counter, ") {\n", inside, "return ", id->Each(), ";\n}");
}

std::string CountOfIds(const Chain& body, ValueId ids) {
  const std::vector<Dim>& dims = body.op(ids).type.dims;
  return absl::StrCat(ElementsPerM(dims), "ll", SymbolicAxis(dims) >= 0 ? " * m" : "");
}

// The first scatter by the same ids into as many rows: what is asked for one holds for all.
ValueId FirstAlike(const Chain& body, ValueId scatter) {
  const Op& op = body.op(scatter);
  ValueId first = 0;
  while (body.op(first).kind != OpKind::kScatter || body.op(first).operands[1] != op.operands[1] ||
         body.op(first).type.dims[0] != op.type.dims[0]) {
    ++first;
  }
  return first;
}

}  // namespace

HandText::HandText(const StitchCode& code, const StitchProgram& program)
    : code_(code),
      program_(program),
      layout_(program.handed.empty() ? HandLayout()
                                     : LayOutHands(*code.body, program, code.schedule)) {}

std::string HandText::Declarations(size_t phase) const {
  if (program_.phases[phase].hands.empty()) return "";
  const StitchSchedule& s = code_.schedule;
  const int64_t begin = RoundUp(HandsOffset(*code_.body, program_, s), kHandsAlignment);
  return absl::Substitute("  unsigned char* const handed = dynamic_shared + $0$1;\n", begin,
                          s.UnitsPerBlock() == 1
                              ? ""
                              : absl::Substitute(" + static_cast<int>(threadIdx.x) / $0 * $1",
                                                 s.unit_threads, layout_.group_bytes));
}

std::string HandText::Meet(size_t phase, size_t loop) const {
  const StitchPhase& of = program_.phases[phase];
  if (of.hands.empty()) return "";
  return MeetsBefore(of, code_.schedule.unit_threads > kWarp)[loop] ? "group.share();" : "";
}

HandedResult HandText::ResultOf(size_t phase, ValueId value) const {
  const std::vector<HandPlace>& places = layout_.phases[phase];
  const auto place = std::find_if(places.begin(), places.end(),
                                  [&](const HandPlace& one) { return one.value == value; });
  return {
      ElementTypeName(place->dtype),
      absl::Substitute("handed_at<$0>(handed + $1)", ElementTypeName(place->dtype), place->offset),
      place->strides};
}

void HandText::Publish(size_t phase, size_t loop, StitchEmitter& emitter) const {
  for (const StitchHand& hand : program_.phases[phase].hands) {
    if (hand.made == loop) emitter.SetHanded(hand.value, ResultOf(phase, hand.value));
  }
}

StagedText::StagedText(const StitchCode& code, const StitchProgram& program)
    : code_(code),
      ints_(UnitsAreInts(program)),
      places_(LayOutStaged(*code.body, program, code.schedule)),
      offset_(places_.empty()
                  ? 0
                  : RoundUp(HandsOffset(*code.body, program, code.schedule), kHandsAlignment)) {}

std::string StagedText::First(const StagedPlace& place) const {
  return absl::Substitute("handed_at<$0>(dynamic_shared + $1)", ElementTypeName(place.dtype),
                          offset_ + place.offset);
}

void StagedText::Publish(StitchEmitter& emitter) const {
  const StitchSchedule& s = code_.schedule;
  for (const StagedPlace& place : places_) {
    emitter.SetStaged(
        place.input,
        {First(place), absl::Substitute("$0::place(static_cast<int>(threadIdx.x) / "
                                        "$1, ",
                                        LayoutName(place, s.UnitsPerBlock()), s.unit_threads)});
  }
}

// The first barrier waits for readers of the units before.
std::string StagedText::Text(const std::map<ValueId, std::string>& from) const {
  if (from.empty()) return "";
  std::string text = "    __syncthreads();\n";
  for (const StagedPlace& place : places_) {
    const auto address = from.find(place.input);
    if (address == from.end()) continue;
    absl::StrAppend(
        &text, absl::Substitute("    $0::fill<$1, $2>($3, base, units,\n"
                                "        [&]($6 u, int i) { return in$4 + ($5); });\n",
                                LayoutName(place, code_.schedule.UnitsPerBlock()),
                                ElementTypeName(place.dtype), code_.schedule.block_threads,
                                First(place), code_.body->op(place.input).input, address->second,
                                ints_ ? "int" : "long long"));
  }
  return text + "    __syncthreads();\n";
}

absl::StatusOr<Emitted> ScatterText::Ask(ValueId ids, const std::string& question, bool vector,
                                         int depth, bool of_unit) {
  std::vector<ScopedText::Scope> inner = emitter_.SetAside(depth);
  const absl::StatusOr<std::string> id_at = IdAt(body_, emitter_, ids);
  Emitted answer;
  if (id_at.ok()) {
    answer = emitter_.Declare(
        "bool", absl::StrCat(question, ", ", CountOfIds(body_, ids), ", ", *id_at, ")"), vector,
        depth, of_unit);
  }
  emitter_.Resume(std::move(inner));
  SINTER_RETURN_IF_ERROR(id_at.status());
  return answer;
}

absl::StatusOr<ScatterText::Place> ScatterText::Written(ValueId scatter, const Position& at) {
  const Op& op = body_.op(scatter);
  IndexSpace& space = emitter_.space();
  const ValueId ids = op.operands[1];
  const Position own = PullPosition(body_, op, 1, at, space);
  SINTER_ASSIGN_OR_RETURN(const Emitted id, emitter_.Pull(ids, own));
  const Index number = space.Canonical(LinearIndex(body_.op(ids).type.dims, own));
  const bool each =
      AlongVector(space, number, emitter_.element(), emitter_.width()) != Along::kUniform;
  const bool vector = id.vector || each, of_unit = id.of_unit || emitter_.MovesWithUnit(number);
  const int depth = std::max(id.depth, emitter_.LoadDepth(number));
  const Dim rows = op.type.dims[0];
  const std::string count = rows.symbolic ? "m" : absl::StrCat(rows.value);
  const ElementKey key{FirstAlike(body_, scatter), space.Canonical(own)};
  Emitted stored;
  if (const Emitted* found = emitter_.Find(key)) {
    stored = *found;
  } else {
    const std::string question =
        absl::StrCat("is_place(", id.Each(), ", ", count, ") && is_last(", id.Each(), ", ",
                     IndexText(space, number, emitter_.element(), each));
    SINTER_ASSIGN_OR_RETURN(stored, Ask(ids, question, vector, depth, of_unit));
    emitter_.Remember(key, stored);
  }
  const Emitted place =
      emitter_.Declare("long long", absl::StrCat("place_of(", id.Each(), ", ", count, ")"),
                       id.vector, id.depth, id.of_unit);
  const IndexVar read = ReadOfIds(body_, op, at, space);
  const bool one = place.vector && emitter_.width() == 1;
  space.NameRead(read, one ? absl::StrCat(place.name, "[0]") : place.Each(), place.depth);
  Place result{stored, {Index::Of(read)}};
  result.at.insert(result.at.end(), at.begin() + static_cast<std::ptrdiff_t>(own.size()), at.end());
  return result;
}

absl::StatusOr<ScatterText::Place> ScatterText::Left(ValueId scatter, const Position& at) {
  IndexSpace& space = emitter_.space();
  const Index row = space.Canonical(at[0]);
  const bool each =
      AlongVector(space, row, emitter_.element(), emitter_.width()) != Along::kUniform;
  SINTER_ASSIGN_OR_RETURN(
      const Emitted stored,
      Ask(body_.op(scatter).operands[1],
          absl::StrCat("!is_named(", IndexText(space, row, emitter_.element(), each)), each,
          emitter_.LoadDepth(row), emitter_.MovesWithUnit(row)));
  return Place{stored, at};
}

}  // namespace sinter
