#include "src/fusion/grouped_end.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/status.h"
#include "src/chain/linear_finder.h"
#include "src/chain/op.h"

namespace sinter {
namespace {

constexpr ValueId kMostValuesAfter = 256;  // a program's end is not further from its product

size_t AsIndex(ValueId id) { return static_cast<size_t>(id); }

bool IsNumber(const Chain& chain, ValueId id) {
  const Op& op = chain.op(id);
  return op.kind == OpKind::kScalar ||
         (op.kind == OpKind::kBroadcast && chain.op(op.operands[0]).kind == OpKind::kScalar);
}

// The axes of `dims` that have more than one index.
std::vector<int> LongAxes(const std::vector<Dim>& dims) {
  std::vector<int> axes;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != Dim::Constant(1)) axes.push_back(static_cast<int>(i));
  }
  return axes;
}

}  // namespace

struct GroupedEndFinder::Place {
  enum Axis { kRow, kSlot, kColumn, kExpert };
  ValueId value = -1;
  std::array<int, 4> axes = {-1, -1, -1, -1};  // by Axis: the value's axis; -1: all are one
};

GroupedEndFinder::GroupedEndFinder(const Chain& chain, const Users& users, ValueId product,
                                   Lies lies)
    : chain_(chain),
      users_(users),
      product_(product),
      ids_(chain.op(product).operands[2]),
      by_ends_(IsByEnds(chain.op(product))),
      columns_(chain.op(product).type.dims.back().value),
      lies_(std::move(lies)),
      made_(chain.ops().size(), false) {
  made_[AsIndex(product)] = true;
  for (size_t id = AsIndex(product) + 1; id < made_.size(); ++id) {
    const std::vector<ValueId>& operands = chain.ops()[id].operands;
    made_[id] = std::any_of(operands.begin(), operands.end(),
                            [&](ValueId operand) { return made_[AsIndex(operand)]; });
  }
}

// Whether its extents are the product's, with half of the columns.
bool GroupedEndFinder::HasHalf(ValueId id) const {
  std::vector<Dim> dims = chain_.op(product_).type.dims;
  dims.back() = Dim::Constant(columns_ / 2);
  return columns_ % 2 == 0 && chain_.op(id).type.dims == dims;
}

// Which half of its operand's columns a slice is: consecutive ones, or every second one; -1.
int GroupedEndFinder::HalfAt(ValueId id, bool in_turns) const {
  const Op& op = chain_.op(id);
  const int64_t n = columns_ / 2;
  if (op.kind != OpKind::kSlice || !HasHalf(id)) return -1;
  if (chain_.op(op.operands[0]).type.dims != chain_.op(product_).type.dims) return -1;
  if (n > 1 && op.steps.back() != (in_turns ? 2 : 1)) return -1;
  for (const int half : {0, 1}) {
    if (op.starts.back() == (in_turns ? half : half * n)) return half;
  }
  return -1;
}

std::vector<ValueId> GroupedEndFinder::Ends(const std::vector<bool>& claimed) const {
  std::vector<ValueId> ends;
  const auto last = std::min(static_cast<ValueId>(made_.size()), product_ + kMostValuesAfter);
  for (ValueId id = last - 1; id > product_; --id) {
    const Op& op = chain_.op(id);
    if (!IsMade(id) || claimed[AsIndex(id)] || !IsElementWise(op) ||
        BelowWidening(chain_, id) != id) {
      continue;
    }
    if (op.type.dims != chain_.op(product_).type.dims && !HasHalf(id)) continue;
    const bool codes = op.kind == OpKind::kCast && op.type.dtype == DType::kE4M3;
    if (IsFloat(op.type.dtype) || codes) ends.push_back(id);
  }
  ends.push_back(product_);
  return ends;
}

// Adds what leads from the product to `id`, and which halves of its columns that reads.
absl::Status GroupedEndFinder::Collect(ValueId id, const std::vector<bool>& claimed,
                                       GroupedEnd* found, std::set<int>* halves) const {
  if (!IsMade(id) || !found->values.insert(id).second || id == product_) return absl::OkStatus();
  const Op& op = chain_.op(id);
  const int half = HalfAt(id, found->pair == GroupedPair::kInTurns);
  if (claimed[AsIndex(id)] || (half < 0 && !IsElementWise(op))) {
    return Invalid(NameOfValue(chain_, id), " is not an element-wise op of a grouped product");
  }
  if (half >= 0) halves->insert(half);
  for (const ValueId operand : op.operands) {
    SINTER_RETURN_IF_ERROR(Collect(operand, claimed, found, halves));
  }
  return absl::OkStatus();
}

// Adds what else leads to the values, and only to them, down to the program's operands.
void GroupedEndFinder::AddOthers(const std::vector<bool>& claimed, GroupedEnd* found) const {
  const std::vector<ValueId>& operands = found->operands;
  std::set<ValueId>& values = found->values;
  const auto is_other = [&](ValueId id) {
    const Op& op = chain_.op(id);
    const bool operand = std::find(operands.begin(), operands.end(), id) != operands.end();
    return !IsMade(id) && op.kind != OpKind::kInput && !IsNumber(chain_, id) && !operand &&
           !claimed[AsIndex(id)] && values.count(id) == 0 && users_.AreAmong(values, id);
  };
  std::vector<ValueId> open(values.begin(), values.end());
  open.erase(std::remove(open.begin(), open.end(), product_), open.end());
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    for (const ValueId below : chain_.op(id).operands) {
      if (!is_other(below)) continue;
      values.insert(below);
      open.push_back(below);
    }
  }
}

// Goes down by one op that keeps elements as they are; false where there is none.
bool GroupedEndFinder::Descend(Place* place) const {
  const Op& op = chain_.op(place->value);
  if (op.operands.empty() || OutputOf(chain_, place->value) >= 0) return false;
  const ValueId below = op.operands[0];
  const std::vector<Dim>&dims = op.type.dims, &from = chain_.op(below).type.dims;
  std::array<int, 4> axes = place->axes;
  if (op.kind == OpKind::kBroadcast) {
    for (int& axis : axes) {
      if (axis < 0) continue;
      const int at = axis - static_cast<int>(dims.size() - from.size());
      axis = at < 0 || from[AsIndex(at)] != dims[AsIndex(axis)] ? -1 : at;
    }
  } else if (op.kind == OpKind::kReshape) {
    const std::vector<int> to = LongAxes(dims), of = LongAxes(from);
    if (to.size() != of.size()) return false;
    for (size_t i = 0; i < to.size(); ++i) {
      if (dims[AsIndex(to[i])] != from[AsIndex(of[i])]) return false;
    }
    for (int& axis : axes) {
      const auto at = std::find(to.begin(), to.end(), axis);
      axis = at == to.end() ? -1 : of[static_cast<size_t>(at - to.begin())];
    }
  } else if (op.kind == OpKind::kGather) {
    const bool rows = axes[Place::kRow] == 0 && axes[Place::kSlot] == 1;
    if (by_ends_ || op.axis != 0 || op.operands[1] != ids_ || !rows) return false;
    const int column = axes[Place::kColumn];
    axes = {-1, -1, column < 0 ? -1 : column - 1, 0};  // one axis for both of the ids
  } else if (BelowWidening(chain_, place->value) == place->value) {
    return false;
  }
  place->axes = axes;
  place->value = below;
  return true;
}

// The operand that `id`, a number or of the result's extents, is elements of; none where kernels
// have to compute it.
std::optional<GroupedEndFinder::Operand> GroupedEndFinder::OperandAt(ValueId id) const {
  const std::vector<Dim>& dims = chain_.op(id).type.dims;
  const int rank = static_cast<int>(dims.size());
  if (rank > 0 && dims != chain_.op(product_).type.dims && !HasHalf(id)) return std::nullopt;
  Place place;
  place.value = id;
  if (rank > 0) place.axes = {0, by_ends_ ? -1 : 1, rank - 1, -1};
  while (Descend(&place)) {
  }
  const Op& base = chain_.op(place.value);
  const bool computed = place.value == id && IsElementWise(base);
  if (computed && OutputOf(chain_, id) < 0) return std::nullopt;
  if (base.kind == OpKind::kScalar || !IsFloat(base.type.dtype)) return std::nullopt;
  const absl::StatusOr<std::vector<int64_t>> lies = lies_(place.value);
  if (!lies.ok()) return std::nullopt;
  const auto stride = [&](Place::Axis axis) -> int64_t {
    const int at = place.axes[axis];
    return at < 0 ? 0 : (*lies)[AsIndex(at)];
  };
  Operand operand;
  operand.base = place.value;
  operand.at = {0, stride(Place::kRow), stride(Place::kSlot), 0, stride(Place::kColumn), 0};
  const bool of_slots = operand.at.row != 0 || operand.at.slot != 0;
  if (place.axes[Place::kExpert] >= 0) {
    if (of_slots) return std::nullopt;
    operand.at.expert = std::max<int64_t>(1, stride(Place::kExpert));
    operand.kind = LeafKind::kColumn;
  } else if (operand.at.column != 0) {
    operand.kind = of_slots ? LeafKind::kMatrix : LeafKind::kColumn;
  } else {
    operand.kind = of_slots ? LeafKind::kRow : LeafKind::kNumber;
  }
  return operand;
}

absl::StatusOr<GroupedEnd> GroupedEndFinder::At(ValueId end, DType result,
                                                const std::vector<bool>& claimed,
                                                GroupedProduct p) const {
  GroupedEnd found;
  absl::Status collected;
  const bool pair = end != product_ && HasHalf(end);
  for (const GroupedPair form : {GroupedPair::kHalves, GroupedPair::kInTurns}) {
    std::set<int> halves;
    found.values.clear();
    found.pair = pair ? form : GroupedPair::kNone;
    collected = Collect(end, claimed, &found, &halves);
    if (collected.ok() && halves.size() != (pair ? 2 : 0)) {
      collected = Invalid("it does not read both halves of a grouped product's columns");
    }
    if (collected.ok() || !pair) break;
  }
  SINTER_RETURN_IF_ERROR(collected);
  for (const ValueId id : found.values) {
    if (id != end && !users_.AreAmong(found.values, id)) {
      return Invalid(NameOfValue(chain_, id), " is read by another kernel");
    }
  }
  found.end = end;
  p.pair = found.pair;
  p.n = pair ? columns_ / 2 : columns_;
  p.result = result;

  // In a pair, an op on all columns is computed twice, once for each half: value `id` of half h is
  // id + (h + 1) * all.
  const auto all = static_cast<ValueId>(made_.size());
  const auto op_at = [&](ValueId at) {
    Op op = chain_.op(at % all);
    op.type.dims = {Dim::Constant(2)};
    const int half = HalfAt(at % all, p.pair == GroupedPair::kInTurns);
    const bool begins = IsMade(at % all) && pair && half >= 0;
    for (ValueId& operand : op.operands) {
      operand += begins ? (half + 1) * all : at / all * all;
    }
    if (begins) op.kind = OpKind::kBroadcast;  // its operand, of that half
    return op;
  };
  std::vector<Operand> operands;  // by number of a leaf
  const auto leaf_at = [&](ValueId at) -> std::optional<ProgramMaker::Leaf> {
    if (IsMade(at % all)) return std::nullopt;
    auto operand = OperandAt(at % all);
    if (!operand.has_value()) return std::nullopt;
    GroupedLeaf& leaf = operand->at;
    if (at >= all) {
      const ValueId half = at / all - 1;
      leaf.offset = leaf.column * half * (p.HasHalves() ? p.n : 1);
      leaf.column *= p.HasHalves() ? 1 : 2;
    }
    size_t number = 0;
    while (number < operands.size() &&
           (operands[number].base != operand->base || operands[number].at != leaf)) {
      ++number;
    }
    if (number == operands.size()) operands.push_back(*operand);
    return ProgramMaker::Leaf{operand->kind, static_cast<int>(number),
                              chain_.op(operand->base).type.dtype};
  };
  ProgramMaker maker(op_at, leaf_at);
  SINTER_ASSIGN_OR_RETURN(const ValueId y, maker.MakeLeaf({LeafKind::kValue}, DType::kF32));
  maker.Set(pair ? product_ + all : product_, y);
  if (pair) {
    SINTER_ASSIGN_OR_RETURN(const ValueId up, maker.MakeLeaf({LeafKind::kUp}, DType::kF32));
    maker.Set(product_ + 2 * all, up);
  }
  const Op& last = chain_.op(end);
  const bool cast = last.kind == OpKind::kCast && IsFloat(chain_.op(last.operands[0]).type.dtype);
  if (!IsFloat(last.type.dtype) && !cast) return Invalid("it ends in no cast of floats");
  SINTER_ASSIGN_OR_RETURN(const ValueId value, maker.Make(cast ? last.operands[0] : end));
  SINTER_ASSIGN_OR_RETURN(const ValueId stored,
                          maker.builder().Cast(value, IsCode(result) ? DType::kF32 : result));
  SINTER_RETURN_IF_ERROR(maker.builder().Output(stored));
  SINTER_ASSIGN_OR_RETURN(ProgramMaker::Made made, maker.Finish());

  p.program = GroupedProgramOf(made.body, made.kinds, p);
  if (p.program.present()) {
    for (size_t i = 0; i < made.kinds.size(); ++i) {
      GroupedLeaf leaf;
      if (made.numbers[i] >= 0) {
        const Operand& operand = operands[AsIndex(made.numbers[i])];
        leaf = operand.at;
        const auto known = std::find(found.operands.begin(), found.operands.end(), operand.base);
        leaf.operand = static_cast<int>(known - found.operands.begin());
        if (known == found.operands.end()) found.operands.push_back(operand.base);
      }
      p.leaves.push_back(leaf);
    }
  }
  SINTER_RETURN_IF_ERROR(CheckGroupedProgram(p));
  found.program = std::move(p.program);
  found.leaves = std::move(p.leaves);
  AddOthers(claimed, &found);
  found.values.erase(product_);
  return found;
}

}  // namespace sinter
