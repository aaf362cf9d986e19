#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/builder.h"
#include "src/chain/op.h"
#include "src/product/matcher.h"

namespace sinter {
namespace {

// Whether kernels take them as a pair, whose rows have one norm and one scale.
bool AreHalves(const Linear& gate, const Linear& up) {
  return up.norm_eps == gate.norm_eps && up.scale_x == gate.scale_x &&
         (up.codes >= 0) == (gate.codes >= 0);
}

// Whether the second half is the gate: a function of it is multiplied by the first. Where no half
// multiplies a function of the other, the first is the gate.
bool GateIsSecond(const Chain& body, const std::vector<LeafKind>& leaves) {
  constexpr int kFirst = 1, kSecond = 2;
  const AffinePart affine = AffineOf(body, leaves);
  std::vector<int> made_of;  // by op
  for (const Op& op : body.ops()) {
    int of = 0;
    if (op.kind == OpKind::kInput) {
      const LeafKind kind = leaves[static_cast<size_t>(op.input)];
      of = kind == LeafKind::kValue ? kFirst : kind == LeafKind::kUp ? kSecond : 0;
    }
    for (const ValueId operand : op.operands) of |= made_of[static_cast<size_t>(operand)];
    made_of.push_back(of);
  }
  for (size_t id = made_of.size(); id-- > 0;) {
    const Op& op = body.ops()[id];
    if (!IsBinary(op, BinaryKind::kMul)) continue;
    for (const size_t side : {size_t{1}, size_t{0}}) {
      const int up = made_of[static_cast<size_t>(op.operands[side])];
      const int of = made_of[static_cast<size_t>(op.operands[1 - side])];
      const bool half = op.operands[side] == affine.value || op.operands[side] == affine.up;
      if (!half || up + of != kFirst + kSecond) continue;
      if (up > 0 && of > 0) return up == kFirst;
    }
  }
  return false;
}

class ProgramWalk {
 public:
  ProgramWalk(const Subgraph& graph, const LinearFinder& finder, ValueId value, DType result,
              bool aux)
      : graph_(graph), finder_(finder), value_(value), result_(result) {
    for (const Subgraph::Aux& of : graph.aux()) {
      if (aux) aux_.push_back(of.value);
    }
  }

  absl::StatusOr<FoundProgram> Run() {
    SINTER_RETURN_IF_ERROR(FindLinear());
    if (linear_.empty()) return Refuse(value_, "has no product with a weight below it");
    if (linear_.size() > 2) return Refuse(value_, "has more than two products below it");
    FoundProgram found;
    found.pair = linear_.size() == 2;
    found.main = Of(0);
    const bool bare = found.main.factor < 0 && found.main.scale == 1 && found.main.bias < 0;
    if (aux_.empty() && bare && linear_[0].value == finder_.SkipWidening(value_)) return found;
    if (found.pair) {
      found.up = Of(1);
      SINTER_RETURN_IF_ERROR(CheckPair(found.main, found.up));
      // Weights have scales of columns both or neither; the program may have one's.
      if ((found.main.columns >= 0) != (found.up.columns >= 0)) {
        found.main.columns = found.up.columns = -1;
      }
    }
    SINTER_RETURN_IF_ERROR(Build(&found));
    return found;
  }

 private:
  // A product's value that the program begins at, and what it is.
  struct Start {
    ValueId value = -1;
    Linear linear;
  };

  absl::Status Refuse(ValueId id, const char* what) const {
    return Invalid("op ", id, " (", NameOf(graph_.op(id)), ") ", what);
  }

  const Linear& Of(int product) const { return linear_[static_cast<size_t>(product)].linear; }

  // The values at which the program begins, one for each weight. Where a product is read at several
  // places, as scaled and not, all of them are traced further down until they meet.
  absl::Status FindLinear() {
    std::set<ValueId> passed;  // linear, but not where the program begins
    for (;;) {
      std::map<ValueId, Linear> starts;
      std::set<ValueId> seen;
      SINTER_RETURN_IF_ERROR(Collect(value_, passed, &seen, &starts));
      for (const ValueId aux : aux_) {
        SINTER_RETURN_IF_ERROR(Collect(Unrounded(aux), passed, &seen, &starts));
      }
      std::map<int, std::vector<ValueId>> by_weight;
      for (const auto& [value, linear] : starts) by_weight[linear.weight].push_back(value);
      const size_t before = passed.size();
      for (const auto& [weight, values] : by_weight) {
        if (values.size() > 1) passed.insert(values.back());
      }
      if (passed.size() > before) continue;
      linear_.clear();
      for (const auto& [value, linear] : starts) linear_.push_back({value, linear});
      return absl::OkStatus();
    }
  }

  absl::Status Collect(ValueId id, const std::set<ValueId>& passed, std::set<ValueId>* seen,
                       std::map<ValueId, Linear>* starts) {
    if (!seen->insert(id).second) return absl::OkStatus();
    if (seen->size() > 2 * kMostProgramOps) return Refuse(value_, "has too many ops below it");
    if (IsLeaf(id)) return absl::OkStatus();
    if (RowAt(id) >= 0) return absl::OkStatus();
    const ValueId below = finder_.SkipWidening(id);
    Linear linear;
    if (passed.count(below) == 0 && finder_.LinearAt(below, &linear)) {
      (*starts)[below] = linear;
      return absl::OkStatus();
    }
    const Op& op = graph_.op(id);
    const bool spread = op.kind == OpKind::kBroadcast && IsNumber(op.operands[0]);
    if (!IsElementWise(op) && !spread) return Refuse(id, "is no element-wise op of a product");
    for (const ValueId operand : op.operands) {
      SINTER_RETURN_IF_ERROR(Collect(operand, passed, seen, starts));
    }
    return absl::OkStatus();
  }

  // Number of an operand that is one number; -1 if `id` is not one.
  int NumberAt(ValueId id) const {
    const Op& op = graph_.op(finder_.SkipWidening(id));
    return op.type.rank() == 0 ? op.input : -1;
  }
  bool IsNumber(ValueId id) const { return graph_.op(id).type.rank() == 0; }
  bool IsLeaf(ValueId id) const {
    return graph_.op(id).kind == OpKind::kScalar || NumberAt(id) >= 0 ||
           finder_.VectorAt(id) >= 0 || finder_.ResidualAt(id, graph_.op(value_)) >= 0;
  }

  // Number of an operand with an element of each row; -1 if `id` is not one.
  int RowAt(ValueId id) const {
    const ValueId column = finder_.SpreadColumnAt(id);
    return column < 0 ? -1 : finder_.FactorAt(column);
  }

  absl::Status CheckPair(const Linear& one, const Linear& other) const {
    if (finder_.SkipWidening(one.x) != finder_.SkipWidening(other.x)) {
      return Refuse(value_, "has products of different rows below it");
    }
    if (one.conv >= 0 || other.conv >= 0) return Refuse(value_, "has two convolutions below it");
    if (one.layout != other.layout) {
      return Refuse(value_, "has two products below it whose weights differ in layout");
    }
    if (one.transposed != other.transposed) {
      return Refuse(value_, "has two products below it, of which one has transposed rows");
    }
    if (AreHalves(one, other)) return absl::OkStatus();
    return Refuse(value_, "has two products below it whose rows are scaled apart");
  }

  absl::Status Build(FoundProgram* found) {
    const bool scaled = found->main.columns >= 0;  // by the kernel
    SINTER_ASSIGN_OR_RETURN(starts_[linear_[0].value], MakeStart(LeafKind::kValue, Of(0), scaled));
    if (found->pair) {
      SINTER_ASSIGN_OR_RETURN(starts_[linear_[1].value], MakeStart(LeafKind::kUp, Of(1), scaled));
    }
    std::vector<ValueId> results(1);
    for (const ValueId aux : aux_) {
      SINTER_ASSIGN_OR_RETURN(const ValueId made, Make(Unrounded(aux)));
      SINTER_ASSIGN_OR_RETURN(results.emplace_back(),
                              builder_.Cast(made, graph_.op(aux).type.dtype));
      if (Unrounded(aux) != aux) made_[aux] = results.back();
    }
    SINTER_ASSIGN_OR_RETURN(const ValueId made, Make(value_));
    SINTER_ASSIGN_OR_RETURN(results.front(), builder_.Cast(made, result_));
    for (const ValueId result : results) SINTER_RETURN_IF_ERROR(builder_.Output(result));
    SINTER_ASSIGN_OR_RETURN(Chain body, builder_.Finish());
    std::vector<LeafKind> kinds;
    for (const int32_t input : body.InputOrder()) {
      kinds.push_back(leaves_[static_cast<size_t>(input)].kind);
      found->leaves.push_back(leaves_[static_cast<size_t>(input)].number);
    }
    if (found->pair && GateIsSecond(body, kinds)) {
      std::swap(found->main, found->up);
      for (LeafKind& kind : kinds) {
        if (kind <= LeafKind::kUp) kind = kind == LeafKind::kUp ? LeafKind::kValue : LeafKind::kUp;
      }
    }
    found->program = ProgramOf(std::make_shared<const Chain>(std::move(body)), std::move(kinds));
    if (!found->program.written()) return absl::OkStatus();
    return CheckProgram(found->program, result_, found->pair);
  }

  // What the store rounds, where `aux` is a cast.
  ValueId Unrounded(ValueId aux) const {
    const Op& op = graph_.op(aux);
    return op.kind == OpKind::kCast ? op.operands[0] : aux;
  }

  absl::StatusOr<ValueId> NewInput(LeafKind kind, int number, DType dtype, bool of_start = false) {
    SINTER_ASSIGN_OR_RETURN(const ValueId value, builder_.Input({dtype, {Dim::Constant(2)}}));
    leaves_.push_back({kind, number, value, of_start});
    return value;
  }
  DType TypeOf(int number) const { return graph_.operand(number).type.dtype; }
  absl::StatusOr<ValueId> Widened(ValueId value, int number, DType dtype) {
    if (TypeOf(number) == dtype) return value;
    return builder_.Cast(value, dtype);
  }

  absl::StatusOr<ValueId> Times(ValueId value, LeafKind kind, int number) {
    if (number < 0) return value;
    SINTER_ASSIGN_OR_RETURN(const ValueId leaf, MakeLeaf(kind, number, DType::kF32));
    return builder_.Binary(BinaryKind::kMul, value, leaf);
  }

  // scale * factor * product + bias, in the order in which AffinePart has them. `scaled`: the
  // product has its scales of columns.
  absl::StatusOr<ValueId> MakeStart(LeafKind kind, const Linear& linear, bool scaled) {
    SINTER_ASSIGN_OR_RETURN(ValueId value, NewInput(kind, -1, DType::kF32));
    SINTER_ASSIGN_OR_RETURN(value, Times(value, LeafKind::kColumn, scaled ? -1 : linear.columns));
    SINTER_ASSIGN_OR_RETURN(value, Times(value, LeafKind::kRow, linear.factor));
    if (linear.scale != 1) {
      SINTER_ASSIGN_OR_RETURN(const ValueId scale, builder_.Scalar(linear.scale));
      SINTER_ASSIGN_OR_RETURN(value, builder_.Binary(BinaryKind::kMul, value, scale));
    }
    if (linear.bias < 0) return value;
    SINTER_ASSIGN_OR_RETURN(ValueId bias,
                            NewInput(LeafKind::kColumn, linear.bias, TypeOf(linear.bias), true));
    SINTER_ASSIGN_OR_RETURN(bias, Widened(bias, linear.bias, DType::kF32));
    return builder_.Binary(BinaryKind::kAdd, value, bias);
  }

  // In the dtype of the graph: vectors and matrices are widened as their readers are.
  absl::StatusOr<ValueId> Make(ValueId id) {
    const auto known = made_.find(id);
    if (known != made_.end()) return known->second;
    SINTER_ASSIGN_OR_RETURN(const ValueId value, MakeNew(id));
    return made_[id] = value;
  }

  absl::StatusOr<ValueId> MakeNew(ValueId id) {
    const Op& op = graph_.op(id);
    const auto start = starts_.find(finder_.SkipWidening(id));
    if (start != starts_.end()) return start->second;
    if (op.kind == OpKind::kScalar) return builder_.Scalar(op.scalar, op.type.dtype);
    const int vector = finder_.VectorAt(id);
    if (vector >= 0) return MakeLeaf(LeafKind::kColumn, vector, op.type.dtype);
    const int number = NumberAt(id);
    if (number >= 0) return MakeLeaf(LeafKind::kNumber, number, op.type.dtype);
    const int matrix = finder_.ResidualAt(id, graph_.op(value_));
    if (matrix >= 0) return MakeLeaf(LeafKind::kMatrix, matrix, op.type.dtype);
    const int row = RowAt(id);
    if (row >= 0) return MakeLeaf(LeafKind::kRow, row, op.type.dtype);
    if (op.kind == OpKind::kBroadcast) return Make(op.operands[0]);
    Op made = op;
    for (ValueId& operand : made.operands) {
      SINTER_ASSIGN_OR_RETURN(operand, Make(operand));
    }
    return Replay(builder_, made, false);
  }

  absl::StatusOr<ValueId> MakeLeaf(LeafKind kind, int number, DType dtype) {
    for (const Leaf& leaf : leaves_) {
      if (leaf.kind == kind && leaf.number == number && !leaf.of_start) {
        return Widened(leaf.value, number, dtype);
      }
    }
    SINTER_ASSIGN_OR_RETURN(const ValueId value, NewInput(kind, number, TypeOf(number)));
    return Widened(value, number, dtype);
  }

  struct Leaf {
    LeafKind kind = LeafKind::kValue;
    int number = 0;
    ValueId value = -1;     // of the builder
    bool of_start = false;  // a bias: where a program reads it too, it is another leaf there
  };

  const Subgraph& graph_;
  const LinearFinder& finder_;
  const ValueId value_;
  const DType result_;
  std::vector<ValueId> aux_;  // auxiliary results
  std::vector<Start> linear_;
  std::map<ValueId, ValueId> starts_;  // what the builder has of them
  ChainBuilder builder_;
  std::vector<Leaf> leaves_;
  std::map<ValueId, ValueId> made_;
};

}  // namespace

absl::StatusOr<FoundProgram> FindProgram(const Subgraph& graph, const LinearFinder& finder,
                                         ValueId value, DType result, bool aux) {
  return ProgramWalk(graph, finder, value, result, aux).Run();
}

}  // namespace sinter
