#include "src/chain/linear_finder.h"

#include <cmath>

#include "src/base/status.h"
#include "src/chain/infer.h"
#include "src/chain/op.h"

namespace sinter {
namespace {

bool IsColumn(const TensorType& type) {
  return type.rank() == 2 && type.dims[1] == Dim::Constant(1);
}

// As f32, which kernels multiply by.
bool IsScale(double scale) {
  const auto single = static_cast<float>(scale);
  return std::isfinite(single) && single != 0;
}

}  // namespace

ValueId LinearFinder::SkipWidening(ValueId id) const {
  for (;;) {
    const Op& op = graph_.op(id);
    if (op.kind != OpKind::kCast) return id;
    const Op& of = graph_.op(op.operands[0]);
    const DType from = of.type.dtype, to = op.type.dtype;
    const bool widens = to == DType::kF32 && IsFloat(from);
    if (!widens && !(from == to && of.kind == OpKind::kCast)) return id;
    id = op.operands[0];
  }
}

int LinearFinder::VectorAt(ValueId id) const {
  const Op& spread = graph_.op(SkipWidening(id));
  if (spread.kind != OpKind::kBroadcast || spread.type.rank() == 0) return -1;
  const Op& vector = graph_.op(SkipWidening(spread.operands[0]));
  const bool whole = vector.type.rank() == 1 && vector.type.dims[0] == spread.type.dims.back();
  return whole ? vector.input : -1;
}

int LinearFinder::ResidualAt(ValueId id, const Op& sum) const {
  const Op& op = graph_.op(SkipWidening(id));
  return op.type.rank() >= 2 && op.type.dims == sum.type.dims ? op.input : -1;
}

ValueId LinearFinder::SpreadColumnAt(ValueId id) const {
  const Op& spread = graph_.op(SkipWidening(id));
  if (spread.kind != OpKind::kBroadcast || spread.type.rank() != 2) return -1;
  const TensorType& from = graph_.op(spread.operands[0]).type;
  return IsColumn(from) && from.dims[0] == spread.type.dims[0] ? spread.operands[0] : -1;
}

int LinearFinder::FactorAt(ValueId column) const {
  ValueId below = SkipWidening(column);
  if (graph_.op(below).kind == OpKind::kReshape) below = SkipWidening(graph_.op(below).operands[0]);
  const TensorType& type = graph_.op(below).type;
  const bool one_a_row = type.rank() == 1 || IsColumn(type);
  return one_a_row && type.dims[0] == graph_.op(column).type.dims[0] ? graph_.op(below).input : -1;
}

bool LinearFinder::NormAt(ValueId column, RowNorm* found) const {
  *found = RowNorm{};
  const auto next = [&](ValueId value) {
    found->values.push_back(SkipWidening(value));
    return graph_.op(found->values.back());
  };
  const Op root = next(column);
  if (!IsUnary(root, UnaryKind::kRsqrt)) return false;
  Op mean = next(root.operands[0]);
  if (IsBinary(mean, BinaryKind::kAdd)) {
    const int side = graph_.op(mean.operands[0]).kind == OpKind::kScalar ? 0 : 1;
    const Op& eps = graph_.op(mean.operands[static_cast<size_t>(side)]);
    if (eps.kind != OpKind::kScalar || !std::isfinite(eps.scalar) || eps.scalar < 0) return false;
    found->eps = eps.scalar;
    mean = next(mean.operands[static_cast<size_t>(1 - side)]);
  }
  if (mean.kind != OpKind::kReduce || mean.reduce != ReduceKind::kMean || !IsColumn(mean.type) ||
      mean.axes != std::vector<int32_t>{1}) {
    return false;
  }
  const Op square = next(mean.operands[0]);
  const bool squares = IsUnary(square, UnaryKind::kSquare);
  if (!squares && !IsBinary(square, BinaryKind::kMul)) return false;
  found->rows = SkipWidening(square.operands[0]);
  return found->rows == SkipWidening(square.operands.back());
}

// Takes a column as the factor of the rows, unless there is one.
bool LinearFinder::TakeColumn(ValueId column, Linear* found, RowNorm* norm) const {
  if (found->factor >= 0 || norm->rows >= 0) return false;
  found->factor = FactorAt(column);
  if (found->factor >= 0) return true;
  RowNorm at;
  if (!NormAt(column, &at)) return false;
  *norm = at;
  return true;
}

bool LinearFinder::LinearAt(ValueId id, Linear* found) const {
  id = SkipWidening(id);
  const Op& op = graph_.op(id);
  if (!IsBinary(op, BinaryKind::kAdd)) return ScaledAt(id, found);
  for (int side : {0, 1}) {
    const int bias = VectorAt(op.operands[1 - side]);
    if (bias < 0 || !ScaledAt(op.operands[side], found)) continue;
    found->bias = bias;
    return true;
  }
  return false;
}

ValueId LinearFinder::SkipScale(ValueId id, double* scale, ValueId* column) const {
  const Op& op = graph_.op(id);
  if (IsBinary(op, BinaryKind::kDiv) && graph_.op(op.operands[1]).kind == OpKind::kScalar) {
    *scale /= graph_.op(op.operands[1]).scalar;
    return SkipWidening(op.operands[0]);
  }
  if (!IsBinary(op, BinaryKind::kMul)) return -1;
  for (int side : {1, 0}) {
    const Op& other = graph_.op(op.operands[side]);
    const ValueId spread = SpreadColumnAt(op.operands[side]);
    if (other.kind == OpKind::kScalar) {
      *scale *= other.scalar;
    } else if (spread >= 0) {
      *column = spread;
    } else {
      continue;
    }
    return SkipWidening(op.operands[1 - side]);
  }
  return -1;
}

// The other operand of a multiplication by a vector of columns; -1 if `id` is not one, or if a
// vector was found before.
ValueId LinearFinder::SkipColumns(ValueId id, Linear* found) const {
  const Op& op = graph_.op(id);
  if (!IsBinary(op, BinaryKind::kMul) || found->columns >= 0) return -1;
  for (int side : {1, 0}) {
    found->columns = VectorAt(op.operands[side]);
    if (found->columns >= 0) return SkipWidening(op.operands[1 - side]);
  }
  return -1;
}

// Below all scalars, one factor and one vector of columns; `id` itself where there is none.
ValueId LinearFinder::SkipScales(ValueId id, Linear* found, RowNorm* norm) const {
  id = SkipWidening(id);
  for (;;) {
    ValueId column = -1;
    double scale = found->scale;
    ValueId below = SkipScale(id, &scale, &column);
    if (below < 0) below = SkipColumns(id, found);
    if (below < 0) return id;
    if (column >= 0 && !TakeColumn(column, found, norm)) return id;
    found->scale = scale;
    id = below;
  }
}

bool LinearFinder::ScaledAt(ValueId id, Linear* found) const {
  *found = Linear{};
  RowNorm norm;
  const ValueId below = SkipScales(id, found, &norm);
  if (norm.rows < 0 && ConvolutionAt(below, found)) return IsScale(found->scale);
  const Op& product = graph_.op(below);
  if (product.kind == OpKind::kScaledMatmul) {
    return norm.rows < 0 && found->columns < 0 && ScaledProductAt(below, found) &&
           IsScale(found->scale);
  }
  if (product.kind != OpKind::kMatmul || !ProductAt(product, found)) return false;
  if (!found->transposed) TakeFactorOfRows(found, &norm);  // its rows are the sums' terms
  if (norm.rows >= 0) {
    if (found->transposed || norm.rows != SkipWidening(found->x)) return false;
    found->norm_eps = norm.eps;
  }
  return IsScale(found->scale);
}

// Takes a factor of x, with the scalars that follow it up to the product. It takes neither scalars
// without a factor nor scalars before it: either may be an activation's.
void LinearFinder::TakeFactorOfRows(Linear* found, RowNorm* norm) const {
  if (found->factor >= 0 || norm->rows >= 0) return;
  double scale = found->scale;
  ValueId column = -1;
  for (ValueId x = SkipWidening(found->x); x >= 0 && column < 0;) {
    x = SkipScale(x, &scale, &column);
    if (column < 0 || !TakeColumn(column, found, norm)) continue;
    found->x = x;
    found->scale = scale;
  }
}

bool LinearFinder::ConvolutionAt(ValueId id, Linear* found) const {
  const Op& op = graph_.op(id);
  if (op.kind != OpKind::kConv2d) return false;
  found->x = op.operands[0];
  found->weight = InputAt(op.operands[1]);
  found->layout = op.conv.filter == FilterLayout::kOHWI ? Layout::kOI : Layout::kIO;
  found->conv = id;
  return found->weight >= 0;
}

// Number of the operand below reshapes; -1 if that value is not an operand.
int LinearFinder::BelowReshapes(ValueId id) const {
  while (graph_.op(id).kind == OpKind::kReshape) id = graph_.op(id).operands[0];
  return graph_.op(id).input;
}

bool LinearFinder::ScaledProductAt(ValueId id, Linear* found) const {
  const Op& op = graph_.op(id);
  found->codes = id;
  found->x = op.operands[0];
  found->weight = graph_.op(op.operands[1]).input;
  found->layout = Layout::kOI;
  found->scale_x = BelowReshapes(op.operands[2]);
  found->scale_w = BelowReshapes(op.operands[3]);
  return found->weight >= 0 && found->scale_x >= 0 && found->scale_w >= 0;
}

// The rows of a matrix may have several axes, as the pixels of images do, and so may a weight that
// is read as one: its last axis stays.
bool LinearFinder::ProductAt(const Op& op, Linear* found) const {
  const TensorType& x = graph_.op(op.operands[0]).type;
  ValueId weight = SkipWidening(op.operands[1]);
  if (x.rank() != op.type.rank() || graph_.op(weight).type.rank() != 2) return false;
  if (op.transpose_a && x.rank() != 2) return false;
  bool transposed = op.transpose_b;
  while (graph_.op(weight).kind == OpKind::kTranspose && graph_.op(weight).type.rank() == 2) {
    transposed ^= graph_.op(weight).axes[0] == 1;
    weight = SkipWidening(graph_.op(weight).operands[0]);
  }
  if (graph_.op(weight).kind == OpKind::kReshape) {
    const Dim columns = graph_.op(weight).type.dims.back();
    weight = SkipWidening(graph_.op(weight).operands[0]);
    const std::vector<Dim>& dims = graph_.op(weight).type.dims;
    if (dims.size() < 2 || dims.back() != columns) return false;
  }
  if (graph_.op(weight).kind != OpKind::kInput) return false;
  found->x = op.operands[0];
  found->transposed = op.transpose_a;
  found->weight = graph_.op(weight).input;
  found->layout = transposed ? Layout::kOI : Layout::kIO;
  return true;
}

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
