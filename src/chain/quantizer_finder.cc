#include "src/chain/quantizer_finder.h"

#include "src/base/status.h"
#include "src/chain/op_traits.h"
#include "src/chain/scaled_matmul.h"
#include "src/chain/subgraph.h"

namespace sinter {
namespace {

class Reader {
 public:
  Reader(const Subgraph& graph, FoundQuantizer* found) : graph_(graph), found_(*found) {}

  // Reads what a pattern must then confirm.
  bool Run(ValueId codes) {
    const Op& cast = graph_.op(codes);
    if (cast.kind != OpKind::kCast || cast.type.dtype != DType::kE4M3) return false;
    const ValueId product = SkipReshape(cast.operands[0]);
    const Op& mul = graph_.op(product);
    if (!IsBinary(mul, BinaryKind::kMul)) return false;
    for (int side : {1, 0}) {
      found_ = FoundQuantizer{};
      const ValueId inverse = SkipViews(mul.operands[side]);
      if (!InverseAt(inverse)) continue;
      found_.x = mul.operands[1 - side];
      if (found_.rule.granularity == Granularity::kStatic) return true;
      return product != cast.operands[0] && Groups();
    }
    return false;
  }

 private:
  ValueId SkipReshape(ValueId id) const {
    return graph_.op(id).kind == OpKind::kReshape ? graph_.op(id).operands[0] : id;
  }
  ValueId SkipViews(ValueId id) const {
    while (graph_.op(id).kind == OpKind::kBroadcast || graph_.op(id).kind == OpKind::kReshape) {
      id = graph_.op(id).operands[0];
    }
    return id;
  }

  bool InverseAt(ValueId id) {
    const Op& op = graph_.op(id);
    QuantizeSpec& rule = found_.rule;
    if (IsUnary(op, UnaryKind::kReciprocal)) {
      const Op& below = graph_.op(op.operands[0]);
      rule.ue8m0 = IsUnary(below, UnaryKind::kCeilPow2);
      if (rule.ue8m0) return QuotientAt(below.operands[0], 0);
      rule.granularity = Granularity::kStatic;
      rule.scale = op.operands[0];
      return below.type.rank() == 0 && below.type.dtype == DType::kF32;
    }
    return QuotientAt(id, 1);
  }

  // A division of which operand `limits` is the largest magnitudes.
  bool QuotientAt(ValueId id, int limits) {
    const Op& op = graph_.op(id);
    if (!IsBinary(op, BinaryKind::kDiv)) return false;
    found_.limits = op.operands[static_cast<size_t>(limits)];
    found_.rule.granularity = Granularity::kGroup;
    ValueId below = found_.limits;
    if (!TakeScalar(BinaryKind::kMax, &found_.rule.eps, &below)) return false;
    TakeScalar(BinaryKind::kMin, &found_.rule.upper_bound, &below);
    return graph_.op(below).kind == OpKind::kReduce;
  }

  bool TakeScalar(BinaryKind kind, double* scalar, ValueId* id) const {
    const Op& op = graph_.op(*id);
    if (!IsBinary(op, kind)) return false;
    for (int side : {1, 0}) {
      const Op& other = graph_.op(op.operands[side]);
      if (other.kind != OpKind::kScalar) continue;
      *scalar = other.scalar;
      *id = op.operands[1 - side];
      return true;
    }
    return false;
  }

  // x is in groups: [.., k / 128, 128] of [.., k].
  bool Groups() {
    const Op& groups = graph_.op(found_.x);
    if (groups.kind != OpKind::kReshape) return false;
    found_.x = groups.operands[0];
    const TensorType& x = graph_.op(found_.x).type;
    if (groups.type.rank() != x.rank() + 1 || groups.type.dims.back().symbolic) return false;
    std::vector<Dim> want = x.dims;
    want.back() = Dim::Constant(x.dims.back().value / kScaleBlock);
    want.push_back(Dim::Constant(kScaleBlock));
    return groups.type.dims == want;
  }

  const Subgraph& graph_;
  FoundQuantizer& found_;
};

// The codes of the rule, of an x of `rank`.
absl::StatusOr<Chain> PatternOf(QuantizeSpec rule, int rank) {
  ChainBuilder b;
  TensorType type{DType::kF32, {Dim::M()}};
  for (int i = 1; i < rank; ++i)
    type.dims.push_back(Dim::Constant(i + 1 == rank ? kScaleBlock : 1));
  SINTER_ASSIGN_OR_RETURN(const ValueId x, b.Input(type));
  if (rule.granularity == Granularity::kStatic) {
    SINTER_ASSIGN_OR_RETURN(rule.scale, b.Input({DType::kF32, {}}));
  }
  SINTER_ASSIGN_OR_RETURN(const Scaled scaled, AddQuantize(b, x, rule));
  SINTER_RETURN_IF_ERROR(b.Output(scaled.codes));
  if (rule.granularity == Granularity::kGroup) SINTER_RETURN_IF_ERROR(b.Output(scaled.scale));
  return b.Finish();
}

}  // namespace

bool QuantizerAt(const Subgraph& graph, ValueId codes, FoundQuantizer* found) {
  if (!Reader(graph, found).Run(codes)) return false;
  const int rank = graph.op(codes).type.rank();
  if (rank < 2) return false;
  const absl::StatusOr<Chain> pattern = PatternOf(found->rule, rank);
  return pattern.ok() &&
         MatchPattern(graph, codes, *pattern, [&](const std::vector<ValueId>& values) {
           for (const ValueId value : values) {
             if (value != found->x && value != found->rule.scale) return false;
           }
           return true;
         });
}

bool IsScaleOfGroups(const Subgraph& graph, const FoundQuantizer& quantizer, ValueId value) {
  const Op& op = graph.op(value);
  if (quantizer.rule.ue8m0) {
    return IsUnary(op, UnaryKind::kCeilPow2) &&
           graph.op(op.operands[0]).operands[0] == quantizer.limits;
  }
  return IsBinary(op, BinaryKind::kDiv) && op.operands[0] == quantizer.limits &&
         graph.op(op.operands[1]).kind == OpKind::kScalar &&
         graph.op(op.operands[1]).scalar == LargestOf(DType::kE4M3);
}

}  // namespace sinter
