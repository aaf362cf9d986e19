#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
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
      : graph_(graph),
        finder_(finder),
        value_(value),
        result_(result),
        maker_([this](ValueId id) { return OpAt(id); }, [this](ValueId id) { return LeafAt(id); }) {
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
    if (!IsElementWise(op) && !spread) return Refuse(id, "is not an element-wise op of a product");
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
    for (size_t i = 0; i < linear_.size(); ++i) {
      const LeafKind kind = i == 0 ? LeafKind::kValue : LeafKind::kUp;
      SINTER_ASSIGN_OR_RETURN(const ValueId start, MakeStart(kind, linear_[i].linear, scaled));
      maker_.Set(linear_[i].value, start);
    }
    ChainBuilder& builder = maker_.builder();
    std::vector<ValueId> results(1);
    for (const ValueId aux : aux_) {
      SINTER_ASSIGN_OR_RETURN(const ValueId made, maker_.Make(Unrounded(aux)));
      SINTER_ASSIGN_OR_RETURN(results.emplace_back(),
                              builder.Cast(made, graph_.op(aux).type.dtype));
      if (Unrounded(aux) != aux) maker_.Set(aux, results.back());
    }
    SINTER_ASSIGN_OR_RETURN(const ValueId made, maker_.Make(value_));
    SINTER_ASSIGN_OR_RETURN(results.front(), builder.Cast(made, result_));
    for (const ValueId result : results) SINTER_RETURN_IF_ERROR(builder.Output(result));
    SINTER_ASSIGN_OR_RETURN(ProgramMaker::Made program, maker_.Finish());
    found->leaves = std::move(program.numbers);
    std::vector<LeafKind>& kinds = program.kinds;
    if (found->pair && GateIsSecond(*program.body, kinds)) {
      std::swap(found->main, found->up);
      for (LeafKind& kind : kinds) {
        if (kind <= LeafKind::kUp) kind = kind == LeafKind::kUp ? LeafKind::kValue : LeafKind::kUp;
      }
    }
    found->program = ProgramOf(std::move(program.body), std::move(kinds));
    if (!found->program.written()) return absl::OkStatus();
    return CheckProgram(found->program, result_, found->pair);
  }

  // What the store rounds, where `aux` is a cast.
  ValueId Unrounded(ValueId aux) const {
    const Op& op = graph_.op(aux);
    return op.kind == OpKind::kCast ? op.operands[0] : aux;
  }

  DType TypeOf(int number) const { return graph_.operand(number).type.dtype; }
  ProgramMaker::Leaf LeafOf(LeafKind kind, int number) const {
    return {kind, number, TypeOf(number)};
  }

  absl::StatusOr<ValueId> Times(ValueId value, LeafKind kind, int number) {
    if (number < 0) return value;
    SINTER_ASSIGN_OR_RETURN(const ValueId leaf, maker_.MakeLeaf(LeafOf(kind, number), DType::kF32));
    return maker_.builder().Binary(BinaryKind::kMul, value, leaf);
  }

  // scale * factor * product + bias, in the order in which AffinePart has them. `scaled`: the
  // product has its scales of columns.
  absl::StatusOr<ValueId> MakeStart(LeafKind kind, const Linear& linear, bool scaled) {
    ChainBuilder& builder = maker_.builder();
    SINTER_ASSIGN_OR_RETURN(ValueId value, maker_.MakeLeaf({kind}, DType::kF32));
    SINTER_ASSIGN_OR_RETURN(value, Times(value, LeafKind::kColumn, scaled ? -1 : linear.columns));
    SINTER_ASSIGN_OR_RETURN(value, Times(value, LeafKind::kRow, linear.factor));
    if (linear.scale != 1) {
      SINTER_ASSIGN_OR_RETURN(const ValueId scale, builder.Scalar(linear.scale));
      SINTER_ASSIGN_OR_RETURN(value, builder.Binary(BinaryKind::kMul, value, scale));
    }
    if (linear.bias < 0) return value;
    // Where the program reads it too, it is another leaf there.
    SINTER_ASSIGN_OR_RETURN(
        const ValueId bias,
        maker_.MakeLeaf(LeafOf(LeafKind::kColumn, linear.bias), DType::kF32, true));
    return builder.Binary(BinaryKind::kAdd, value, bias);
  }

  // Where the program begins, casts that lose nothing are not its ops.
  Op OpAt(ValueId id) const {
    const ValueId below = finder_.SkipWidening(id);
    for (const Start& start : linear_) {
      if (below != id && start.value == below) {
        Op same;
        same.kind = OpKind::kBroadcast;
        same.operands = {below};
        return same;
      }
    }
    return graph_.op(id);
  }
  std::optional<ProgramMaker::Leaf> LeafAt(ValueId id) const {
    const int vector = finder_.VectorAt(id);
    if (vector >= 0) return LeafOf(LeafKind::kColumn, vector);
    const int number = NumberAt(id);
    if (number >= 0) return LeafOf(LeafKind::kNumber, number);
    const int matrix = finder_.ResidualAt(id, graph_.op(value_));
    if (matrix >= 0) return LeafOf(LeafKind::kMatrix, matrix);
    const int row = RowAt(id);
    if (row >= 0) return LeafOf(LeafKind::kRow, row);
    return std::nullopt;
  }

  const Subgraph& graph_;
  const LinearFinder& finder_;
  const ValueId value_;
  const DType result_;
  std::vector<ValueId> aux_;  // auxiliary results
  std::vector<Start> linear_;
  ProgramMaker maker_;
};

}  // namespace

absl::StatusOr<ValueId> ProgramMaker::Make(ValueId id) {
  const auto known = made_.find(id);
  if (known != made_.end()) return known->second;
  SINTER_ASSIGN_OR_RETURN(const ValueId value, MakeNew(id));
  return made_[id] = value;
}

absl::StatusOr<ValueId> ProgramMaker::MakeNew(ValueId id) {
  Op op = op_at_(id);
  if (op.kind == OpKind::kScalar) return builder_.Scalar(op.scalar, op.type.dtype);
  if (const auto leaf = leaf_at_(id)) return MakeLeaf(*leaf, op.type.dtype);
  if (op.kind == OpKind::kBroadcast) return Make(op.operands[0]);
  if (!IsElementWise(op)) return Invalid("a program has no ", NameOf(op));
  for (ValueId& operand : op.operands) {
    SINTER_ASSIGN_OR_RETURN(operand, Make(operand));
  }
  return Replay(builder_, op, false);
}

absl::StatusOr<ValueId> ProgramMaker::MakeLeaf(const Leaf& leaf, DType dtype, bool apart) {
  ValueId value = -1;
  for (const Known& known : leaves_) {
    const bool same = known.leaf.kind == leaf.kind && known.leaf.number == leaf.number;
    if (same && !known.apart && !apart) value = known.value;
  }
  if (value < 0) {
    SINTER_ASSIGN_OR_RETURN(value, builder_.Input({leaf.dtype, {Dim::Constant(2)}}));
    leaves_.push_back({leaf, value, apart});
  }
  if (leaf.dtype == dtype) return value;
  return builder_.Cast(value, dtype);
}

absl::StatusOr<ProgramMaker::Made> ProgramMaker::Finish() {
  SINTER_ASSIGN_OR_RETURN(Chain body, builder_.Finish());
  Made made;
  for (const int32_t input : body.InputOrder()) {
    made.kinds.push_back(leaves_[static_cast<size_t>(input)].leaf.kind);
    made.numbers.push_back(leaves_[static_cast<size_t>(input)].leaf.number);
  }
  made.body = std::make_shared<const Chain>(std::move(body));
  return made;
}

absl::StatusOr<FoundProgram> FindProgram(const Subgraph& graph, const LinearFinder& finder,
                                         ValueId value, DType result, bool aux) {
  return ProgramWalk(graph, finder, value, result, aux).Run();
}

}  // namespace sinter
