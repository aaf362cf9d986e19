// Concats in source: an element of one of the operands.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/base/status.h"
#include "src/stitch/body_work.h"
#include "src/stitch/code/emitter.h"
#include "src/stitch/code/op_text.h"
#include "src/stitch/index.h"
#include "src/stitch/program.h"
#include "src/stitch/sectors.h"

namespace sinter {
namespace {

constexpr size_t kMostSideReads = 8;
constexpr int kMostSideIssue = 24;  // issue slots of an element of a side

}  // namespace

absl::StatusOr<Emitted> StitchEmitter::Joined(ValueId id, const Position& at) {
  const Op& op = body_.op(id);
  const size_t axis = static_cast<size_t>(op.axis);
  const Index place = space().Canonical(at[axis]);
  if (width() > 1 && AlongVector(space(), place, element(), width()) == Along::kScattered) {
    return JoinedOneByOne(id, at);
  }
  if (op.operands.size() == 2) {
    const std::vector<Position> places = {PullPosition(body_, op, 0, at, space()),
                                          PullPosition(body_, op, 1, at, space())};
    std::vector<SideRead> first, second;
    double issue[2] = {};
    if (FindReads(op.operands[0], places[0], &first, &issue[0]) &&
        FindReads(op.operands[1], places[1], &second, &issue[1]) && PairReads(first, &second)) {
      const std::string where = IndexText(space(), place, element(), false);
      const int64_t end = body_.op(op.operands[0]).type.dims[axis].value;
      return JoinedByChoice(id, places, absl::StrCat(where, " < ", end), first, second);
    }
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
        Pull(op.operands[i], PullPosition(body_, op, i, at, space()));
    std::string text = CloseScope();
    SINTER_RETURN_IF_ERROR(value.status());
    vector |= value->vector;
    end += body_.op(op.operands[i]).type.dims[axis].value;
    sides.push_back({std::move(text), value->Each(), end});
  }
  const std::string name = NewName("v");
  const int depth = innermost();
  Add(absl::StrCat(WordName(op.type.dtype), " ", name,
                   vector ? absl::StrCat("[", width(), "];") : ";"));
  const std::string where = IndexText(space(), place, element(), false);
  for (size_t i = 0; i < sides.size(); ++i) {
    const bool last = i + 1 == sides.size();
    Add(absl::StrCat(i == 0 ? "" : "} else ",
                     last ? "{" : absl::StrCat("if (", where, " < ", sides[i].end, ") {")));
    Append(sides[i].text);
    Add(absl::StrCat("  ", vector ? absl::StrCat(EachText(), name, "[e]") : name, " = ",
                     sides[i].value, ";"));
  }
  Add("}");
  return Emitted{name, vector, depth};
}

// A loop over the vector's elements, in which each is a vector of one.
absl::StatusOr<Emitted> StitchEmitter::JoinedOneByOne(ValueId id, const Position& at) {
  const IndexVar all = element();
  const int many = width(), depth = innermost();
  const std::string counter = NewName("k"), place = NewName("x");
  const IndexVar one =
      space().AddLoop(place, space().var(all).extent, depth + 1, space().var(all).is_int);
  Position moved;
  for (const Index& index : at) {
    moved.push_back(space().WithLoop(space().Canonical(index), all, one));
  }
  for (const IndexVar read : space().ReadsIn(space().Canonical(at))) {
    const IndexVar of_one = space().WithLoop(Index::Of(read), all, one).terms()[0].first;
    const std::string each = space().var(read).name;
    if (of_one == read) continue;
    space().NameRead(of_one, absl::StrReplaceAll(each, {{"[e]", absl::StrCat("[", counter, "]")}}),
                     depth + 1);
  }
  SetVectors(one, 1);
  OpenScope();
  const absl::StatusOr<Emitted> value = Joined(id, moved);
  const std::string inside = CloseScope();
  SetVectors(all, many);
  SINTER_RETURN_IF_ERROR(value.status());
  const std::string name = NewName("v");
  Add(absl::StrCat(WordName(body_.op(id).type.dtype), " ", name, "[", many, "];"));
  Add("#pragma unroll");
  Add(absl::StrCat("for (int ", counter, " = 0; ", counter, " < ", many, "; ++", counter, ") {"));
  Add(absl::StrCat("  const auto ", place, " = ", IndexText(space(), Index::Of(all), all, false),
                   " + ", counter, ";"));
  Append(inside);
  Add(absl::StrCat("  ", value->vector ? EachText(1) : "", name, "[", counter,
                   "] = ", value->Each(), ";"));
  Add("}");
  return Emitted{name, true, depth};
}

// The reads of `id`, where computing it for any element costs little and needs no branch: cheap ops
// on packs, and on numbers of the unit that are known.
bool StitchEmitter::FindReads(ValueId id, const Position& at, std::vector<SideRead>* reads,
                              double* issue) {
  if (handed_.count(id) > 0 || staged_.count(id) > 0) return false;
  const Op& op = body_.op(id);
  switch (op.kind) {
    case OpKind::kScalar:
      return true;
    case OpKind::kInput: {
      const ElementKey key = {id, space().Canonical(at)};
      const bool known = std::any_of(reads->begin(), reads->end(),
                                     [&](const SideRead& read) { return read.key == key; });
      if (known) return true;
      const Index address = Address(at, op.strides);
      const Along along = AlongVector(space(), address, element(), width());
      reads->push_back({key, address, along});
      return along != Along::kScattered && reads->size() <= kMostSideReads;
    }
    case OpKind::kReduce: {
      const bool row = program_.uses[static_cast<size_t>(id)] == ReduceUse::kRow;
      if (row) return rows_.count(id) > 0 && IsOfUnit(op, at, unit_, space());
      return segments_.count({id, element()}) > 0 &&
             IsOfSegment(body_, program_, op, at, unit_, element(), space());
    }
    case OpKind::kUnary:
    case OpKind::kBinary: {
      if (Compounded(id).function != Compound::kNone) return false;
      const bool of_element = std::any_of(at.begin(), at.end(), [&](const Index& index) {
        return width() > 1 ? AlongVector(space(), index, element(), width()) != Along::kUniform
                           : space().MovesWith(index, element());
      });
      if (!of_element) break;  // computed once a unit, or once for a vector
      const OpCost cost = CostOfOp(body_, precisions_, id);
      *issue += cost.issue;
      const bool slow = FormOf(TraitsOf(op), precisions_[static_cast<size_t>(id)]).slow;
      if (slow || cost.special > 0 || *issue > kMostSideIssue) return false;
      break;
    }
    default:
      if (op.kind != OpKind::kCast && !IsView(op)) return false;
  }
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (!FindReads(op.operands[i], PullPosition(body_, op, i, at, space()), reads, issue)) {
      return false;
    }
  }
  return true;
}

// Orders the second side's reads so that each is of the input, and along the vector, as its
// neighbour of the first side is; false where they are not.
bool StitchEmitter::PairReads(const std::vector<SideRead>& first, std::vector<SideRead>* second) {
  if (first.empty() || first.size() != second->size()) return false;
  for (size_t i = 0; i < first.size(); ++i) {
    const auto from = second->begin() + static_cast<std::ptrdiff_t>(i);
    const auto same = std::find_if(from, second->end(), [&](const SideRead& read) {
      return read.key.first == first[i].key.first && read.along == first[i].along;
    });
    if (same == second->end()) return false;
    std::rotate(from, same, same + 1);
  }
  return true;
}

// Both sides read the same inputs: each thread reads once, where its own side does, and computes
// both. So no warp waits for the reads of one side after the reads of the other, and no read waits
// for a branch.
absl::StatusOr<Emitted> StitchEmitter::JoinedByChoice(ValueId id,
                                                      const std::vector<Position>& places,
                                                      const std::string& is_first,
                                                      const std::vector<SideRead>& first,
                                                      const std::vector<SideRead>& second) {
  const Op& op = body_.op(id);
  const std::string choice = NewName("first");
  Add(absl::StrCat("const bool ", choice, " = ", is_first, ";"));
  std::map<ElementKey, Emitted> chosen[2];
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i].key == second[i].key) continue;  // read wherever it belongs
    const Op& input = body_.op(first[i].key.first);
    const auto text = [&](const Index& address) {
      return IndexText(space(), address, element(), false);
    };
    const std::string where = absl::StrCat("(", choice, " ? ", text(first[i].address), " : ",
                                           text(second[i].address), ")");
    const std::string type = ElementTypeName(input.type.dtype);
    const std::string base = absl::StrCat("in", input.input);
    Emitted read = first[i].along == Along::kUniform
                       ? Declare(WordName(input.type.dtype),
                                 absl::StrCat(type, "::word(", base, "[", where, "])"), false,
                                 innermost(), true)
                       : DeclarePack(type, base, where, innermost(), true);
    read.depth = innermost() + 1;  // no value of other scopes is made of it
    chosen[0][first[i].key] = chosen[1][second[i].key] = read;
  }
  std::string values[2];
  bool vector = false;
  for (size_t side = 0; side < 2; ++side) {
    OpenScope();
    std::swap(chosen_, chosen[side]);
    const absl::StatusOr<Emitted> value = Pull(op.operands[side], places[side]);
    std::swap(chosen_, chosen[side]);
    Append(CloseScope());
    SINTER_RETURN_IF_ERROR(value.status());
    vector |= value->vector;
    values[side] = value->Each();
  }
  return Declare(WordName(op.type.dtype), absl::StrCat(choice, " ? ", values[0], " : ", values[1]),
                 vector, innermost(), true);
}

}  // namespace sinter
