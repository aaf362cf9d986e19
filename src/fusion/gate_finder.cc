#include "src/fusion/gate_finder.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/composites.h"
#include "src/chain/infer.h"
#include "src/chain/linear_finder.h"

namespace sinter {
namespace {

constexpr ValueId kMostOpsOfGate = 64;  // after the product

// gate and up of f32 as inputs 0 and 1, and act(gate) * up.
Chain GatePattern(Activation act) {
  ChainBuilder b;
  const TensorType type{DType::kF32, {Dim::Constant(1)}};
  const ValueId gate = b.Input(type).value(), up = b.Input(type).value();
  const ValueId active = AddActivation(b, act, gate).value();
  b.Output(b.Binary(BinaryKind::kMul, active, up).value()).IgnoreError();
  return b.Finish().value();
}

GroupedGate GateOf(bool in_turns, bool gate_first) {
  if (in_turns) return gate_first ? GroupedGate::kInTurnsGateFirst : GroupedGate::kInTurnsUpFirst;
  return gate_first ? GroupedGate::kGateFirst : GroupedGate::kUpFirst;
}

}  // namespace

// Whether `id` is half `half` of the last axis of `whole`: n consecutive elements, or every second
// one.
bool GateFinder::IsHalf(ValueId id, ValueId whole, int half, bool in_turns, int64_t n) const {
  const Op& op = chain_.op(id);
  if (op.kind != OpKind::kSlice || op.operands[0] != whole) return false;
  const size_t last = op.starts.size() - 1;
  std::vector<Dim> dims = chain_.op(whole).type.dims;
  dims.back() = Dim::Constant(n);
  return op.type.dims == dims && op.starts[last] == (in_turns ? half : half * n) &&
         (n == 1 || op.steps[last] == (in_turns ? 2 : 1));
}

bool GateFinder::Find(ValueId whole, int64_t columns, const std::vector<bool>& claimed,
                      FoundGate* found) const {
  const std::vector<ValueId>& halves = users_.Of(whole);
  if (columns % 2 != 0 || users_.IsOutput(whole) || halves.size() != 2) return false;
  const int64_t n = columns / 2;
  const ValueId last = std::min(static_cast<ValueId>(chain_.ops().size()), whole + kMostOpsOfGate);
  for (const bool in_turns : {false, true}) {
    for (const size_t first : {0, 1}) {
      found->left = halves[first];
      found->right = halves[1 - first];
      if (IsHalf(found->left, whole, 0, in_turns, n) &&
          IsHalf(found->right, whole, 1, in_turns, n) &&
          FindBehind(claimed, in_turns, last, found)) {
        return true;
      }
    }
  }
  *found = FoundGate();
  return false;
}

// Finds the first act(gate) * up of the halves before `last`, or else the longest program.
bool GateFinder::FindBehind(const std::vector<bool>& claimed, bool in_turns, ValueId last,
                            FoundGate* found) const {
  const ValueId first = std::max(found->left, found->right) + 1;
  for (ValueId end = first; end < last; ++end) {
    if (IsBinary(chain_.op(end), BinaryKind::kMul) && EndsAt(end, claimed, found) &&
        IsPair(in_turns, found)) {
      return true;
    }
  }
  for (ValueId end = last - 1; end >= first; --end) {
    if (chain_.op(end).type.dtype == DType::kF32 && EndsAt(end, claimed, found) &&
        IsProgram(in_turns, found)) {
      return true;
    }
  }
  return false;
}

// Whether what leads from the halves to `end` is short, reads nothing else but numbers, and is read
// by nothing else.
bool GateFinder::EndsAt(ValueId end, const std::vector<bool>& claimed, FoundGate* found) const {
  const ValueId left = found->left, right = found->right;
  const auto is_claimed = [&](ValueId id) { return claimed[static_cast<size_t>(id)]; };
  if (is_claimed(end) || chain_.op(end).type.dims != chain_.op(left).type.dims) return false;
  std::set<ValueId> inside = {left, right, end};
  std::vector<ValueId> open = {end};
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    for (const ValueId operand : chain_.op(id).operands) {
      if (IsNumber(operand)) continue;
      if (operand < std::min(left, right) || is_claimed(operand)) return false;
      if (inside.insert(operand).second) open.push_back(operand);
      if (inside.size() > kMostOpsOfGate) return false;
    }
  }
  found->end = end;
  found->values = std::move(inside);
  return std::all_of(found->values.begin(), found->values.end(),
                     [&](ValueId id) { return id == end || users_.AreAmong(found->values, id); });
}

// Whether it is act(gate) * up, in either order.
bool GateFinder::IsPair(bool in_turns, FoundGate* found) const {
  const TensorType& type = chain_.op(found->end).type;
  Subgraph graph(chain_, found->end, type, ContiguousStrides(type.dims));
  for (const ValueId half : {found->left, found->right}) {
    graph.AddOperand(half, DType::kF32, ContiguousStrides(type.dims));
  }
  for (const Activation act : kActivations) {
    const Chain pattern = GatePattern(act);
    const std::vector<int32_t> canonical = pattern.CallerOrder();
    for (const bool gate_first : {true, false}) {
      const ValueId gate = gate_first ? found->left : found->right;
      const ValueId up = gate_first ? found->right : found->left;
      const bool matches =
          MatchPattern(graph, found->end, pattern, [&](const std::vector<ValueId>& bound) {
            return bound[static_cast<size_t>(canonical[0])] == gate &&
                   bound[static_cast<size_t>(canonical[1])] == up;
          });
      if (!matches) continue;
      found->act = act;
      found->gate = GateOf(in_turns, gate_first);
      return true;
    }
  }
  return false;
}

bool GateFinder::IsProgram(bool in_turns, FoundGate* found) const {
  found->is_program = MakeProgram(*found, DType::kF32).ok();
  found->gate = GateOf(in_turns, true);
  return found->is_program;
}

// A number, or the same for each element.
bool GateFinder::IsNumber(ValueId id) const {
  const Op& op = chain_.op(id);
  return op.kind == OpKind::kScalar ||
         (op.kind == OpKind::kBroadcast && chain_.op(op.operands[0]).kind == OpKind::kScalar);
}

absl::StatusOr<EpilogueProgram> GateFinder::MakeProgram(const FoundGate& found,
                                                        DType result) const {
  ChainBuilder b;
  std::map<ValueId, ValueId> made;
  std::vector<LeafKind> kinds;
  for (const ValueId id : found.values) {
    Op op = chain_.op(id);
    op.type.dims = {Dim::Constant(2)};
    if (id == found.left || id == found.right) {
      SINTER_ASSIGN_OR_RETURN(made[id], b.Input({DType::kF32, op.type.dims}));
      kinds.push_back(id == found.left ? LeafKind::kValue : LeafKind::kUp);
      continue;
    }
    for (ValueId& operand : op.operands) {
      if (IsNumber(operand)) {
        const Op& spread = chain_.op(operand);
        const Op& number = spread.kind == OpKind::kScalar ? spread : chain_.op(spread.operands[0]);
        SINTER_ASSIGN_OR_RETURN(operand, b.Scalar(number.scalar, number.type.dtype));
      } else {
        operand = made.at(operand);
      }
    }
    SINTER_ASSIGN_OR_RETURN(made[id], Replay(b, op, false));
  }
  SINTER_ASSIGN_OR_RETURN(const ValueId stored, b.Cast(made.at(found.end), result));
  SINTER_RETURN_IF_ERROR(b.Output(stored));
  SINTER_ASSIGN_OR_RETURN(Chain body, b.Finish());
  std::vector<LeafKind> canonical;
  for (const int32_t input : body.InputOrder()) {
    canonical.push_back(kinds[static_cast<size_t>(input)]);
  }
  EpilogueProgram program =
      ProgramOf(std::make_shared<const Chain>(std::move(body)), std::move(canonical));
  if (!program.written()) return Invalid("a pair with a form");
  SINTER_RETURN_IF_ERROR(CheckProgram(program, result, true));
  return program;
}

}  // namespace sinter
