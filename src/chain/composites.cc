// Activations, normalisations, recurrent cells.
#include "src/chain/composites.h"

#include <cmath>
#include <limits>

#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/expander.h"

namespace sinter {
namespace {

constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kGeluCubic = 0.044715;

ValueId GeluTanh(Expander& e, ValueId x) {
  const ValueId cube = e.Mul(x, e.Unary(UnaryKind::kSquare, x));
  const ValueId inner = e.Add(x, e.Mul(e.Scalar(kGeluCubic), cube));
  const ValueId t = e.Unary(UnaryKind::kTanh, e.Mul(e.Scalar(kSqrtTwoOverPi), inner));
  return e.Mul(e.Mul(e.Scalar(0.5), x), e.Add(e.Scalar(1.0), t));
}

ValueId GeluErf(Expander& e, ValueId x) {
  const ValueId t = e.Unary(UnaryKind::kErf, e.Mul(e.Scalar(kSqrtHalf), x));
  return e.Mul(e.Mul(e.Scalar(0.5), x), e.Add(e.Scalar(1.0), t));
}

ValueId Silu(Expander& e, ValueId x) { return e.Mul(x, e.Unary(UnaryKind::kSigmoid, x)); }

ValueId Sigmoid(Expander& e, ValueId x) { return e.Unary(UnaryKind::kSigmoid, x); }

// The axis counted from the front, or -1 with the error set.
int CheckedAxis(Expander& e, ValueId x, int axis) {
  if (!e.ok()) return -1;
  const int rank = e.Type(x).rank();
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  if (rank == 0) {
    e.Fail(InvalidField("rank of x", "0", "at least 1"));
    return -1;
  }
  e.Fail(InvalidField("axis", axis, absl::StrCat("in [", -rank, ", ", rank - 1, "]")));
  return -1;
}

// Extent of the last axis when it is a constant multiple of `parts`, else -1 with the error set.
int64_t CheckParts(Expander& e, absl::string_view field, ValueId x, int64_t parts) {
  if (!e.Check(field, x)) return -1;
  const TensorType& type = e.Type(x);
  if (type.rank() > 0 && !type.dims.back().symbolic && type.dims.back().value % parts == 0) {
    return type.dims.back().value;
  }
  e.Fail(absl::StrCat(field, " is ", ToString(type), ", its last dimension must be a multiple of ",
                      parts));
  return -1;
}

constexpr double kZeroInF32 = 0x1p-150;  // the largest number that rounds to 0

void CheckEps(Expander& e, double eps) {
  if (eps > kZeroInF32 && eps <= 1) return;
  e.Fail(InvalidField("eps", eps, "more than 0 in f32 and at most 1"));
}

void CheckScale(Expander& e, double scale) {
  if (std::fabs(scale) <= kZeroInF32) {
    e.Fail(absl::StrCat("scale is ", scale, ", must not be 0 in f32"));
  }
}

// value * gamma + beta, each of which may be absent.
ValueId Affine(Expander& e, ValueId value, ValueId gamma, ValueId beta) {
  if (gamma != kNoValue) value = e.Mul(value, e.SpreadOperand("gamma", gamma, value));
  if (beta != kNoValue) value = e.Add(value, e.SpreadOperand("beta", beta, value));
  return value;
}

void CheckNumber(Expander& e, ValueId x) {
  if (e.Check("x", x) && e.Type(x).dtype != DType::kS32) e.CheckFloat("x", x);
}

absl::StatusOr<ValueId> AddRelu(ChainBuilder& b, ValueId x) {
  Expander e(b, "relu");
  CheckNumber(e, x);
  return e.Finish(e.Unary(UnaryKind::kRelu, x));
}

// A form of x, widened.
absl::StatusOr<ValueId> AddForm(ChainBuilder& b, const char* name, ValueId x,
                                ValueId (*form)(Expander&, ValueId)) {
  Expander e(b, name);
  e.Check("x", x);
  return e.Finish(form(e, e.Widen(x)));
}

}  // namespace

absl::StatusOr<ValueId> AddActivation(ChainBuilder& b, Activation act, ValueId x) {
  switch (act) {
    case Activation::kGeluTanh:
      return AddGeluTanh(b, x);
    case Activation::kGeluErf:
      return AddGeluErf(b, x);
    case Activation::kSilu:
      return AddSilu(b, x);
    case Activation::kRelu:
      return AddRelu(b, x);
    case Activation::kIdentity: {
      Expander e(b, "identity");
      e.Check("x", x);
      return e.Finish(x);
    }
  }
  const int number = static_cast<int>(act);
  return OfOp(b.size(), "activation",
              WithField(Invalid("act is ", number, ", which does not exist"), "act", number));
}

absl::StatusOr<ValueId> AddGeluTanh(ChainBuilder& b, ValueId x) {
  return AddForm(b, "gelu_tanh", x, GeluTanh);
}

absl::StatusOr<ValueId> AddGeluErf(ChainBuilder& b, ValueId x) {
  return AddForm(b, "gelu_erf", x, GeluErf);
}

absl::StatusOr<ValueId> AddSilu(ChainBuilder& b, ValueId x) { return AddForm(b, "silu", x, Silu); }

absl::StatusOr<ValueId> AddSoftplus(ChainBuilder& b, ValueId x) {
  Expander e(b, "softplus");
  e.Check("x", x);
  const ValueId wide = e.Widen(x);
  const ValueId power =
      e.Unary(UnaryKind::kExp, e.Unary(UnaryKind::kNeg, e.Unary(UnaryKind::kAbs, wide)));
  return e.Finish(e.Add(e.Unary(UnaryKind::kRelu, wide), e.Unary(UnaryKind::kLog1p, power)));
}

absl::StatusOr<ValueId> AddClamp(ChainBuilder& b, ValueId x, double least, double most) {
  Expander e(b, "clamp");
  CheckNumber(e, x);
  if (std::isinf(least) && std::isinf(most)) {
    e.Fail(absl::StrCat("min is ", least, " and max is ", most, ": one must be finite"));
  }
  const auto bound = [&](absl::string_view field, BinaryKind kind, double value, double none) {
    if (!e.ok() || value == none) return;
    const ValueId scalar = e.TakeAs(field, b.Scalar(value, e.Type(x).dtype));
    x = e.Binary(kind, x, scalar);
  };
  bound("min", BinaryKind::kMax, least, -std::numeric_limits<double>::infinity());
  bound("max", BinaryKind::kMin, most, std::numeric_limits<double>::infinity());
  return e.Finish(x);
}

namespace {

// The place of the largest of x, or with `least` of x in the opposite order. s32 is complemented,
// because -(-2^31) is itself.
absl::StatusOr<ValueId> AddPlace(ChainBuilder& b, absl::string_view name, ValueId x, bool least) {
  Expander e(b, name);
  CheckNumber(e, x);
  if (e.ok() && e.Type(x).rank() == 0) e.Fail(InvalidField("rank of x", "0", "at least 1"));
  if (least && e.ok()) {
    x = e.Type(x).dtype == DType::kS32
            ? e.Binary(BinaryKind::kSub, e.Take(b.Scalar(-1, DType::kS32)), x)
            : e.Unary(UnaryKind::kNeg, x);
  }
  if (e.ok()) {
    const absl::StatusOr<TensorType> type = InferTopK(e.Type(x), 1);
    if (!type.ok()) e.Fail(type.status());
  }
  const ValueId place = e.ok() ? e.Take(b.TopK(x, 1)) : -1;
  if (!e.ok()) return e.Finish(-1);
  std::vector<Dim> dims = e.Type(place).dims;
  dims.pop_back();
  return e.Finish(e.Take(b.Reshape(place, dims)));
}

}  // namespace

absl::StatusOr<ValueId> AddArgmax(ChainBuilder& b, ValueId x) {
  return AddPlace(b, "argmax", x, false);
}
absl::StatusOr<ValueId> AddArgmin(ChainBuilder& b, ValueId x) {
  return AddPlace(b, "argmin", x, true);
}

absl::StatusOr<ValueId> AddSwiglu(ChainBuilder& b, ValueId gate, ValueId up) {
  Expander e(b, "swiglu");
  e.Check("gate", gate);
  const ValueId activated = Silu(e, e.Widen(gate));
  return e.Finish(e.Mul(activated, e.WidenOperand("up", up, activated, "the dims of gate")));
}

absl::StatusOr<ValueId> AddSoftmax(ChainBuilder& b, ValueId x, int axis, double scale,
                                   ValueId mask) {
  Expander e(b, "softmax");
  e.Check("x", x);
  CheckScale(e, scale);
  axis = CheckedAxis(e, x, axis);
  ValueId z = e.Widen(x);
  if (scale != 1.0) z = e.Mul(e.Scalar(scale), z);
  if (mask != kNoValue && e.Check("mask", mask) && e.Type(mask).dtype == DType::kPred) {
    e.Fail(InvalidField("mask", ToString(e.Type(mask)), "a number, which is added",
                        ": select 0 or -inf by it"));
  }
  if (mask != kNoValue) z = e.Add(z, e.SpreadOperand("mask", mask, z, true));
  const ValueId shifted = e.Sub(z, e.Spread(e.Statistic(ReduceKind::kMax, z, axis), z));
  const ValueId powers = e.Unary(UnaryKind::kExp, shifted);
  const ValueId sum = e.Spread(e.Statistic(ReduceKind::kSum, powers, axis), powers);
  return e.Finish(e.Binary(BinaryKind::kDiv, powers, sum));
}

absl::StatusOr<ValueId> AddLayerNorm(ChainBuilder& b, ValueId x, double eps, ValueId gamma,
                                     ValueId beta) {
  Expander e(b, "layernorm");
  e.Check("x", x);
  CheckEps(e, eps);
  const int axis = CheckedAxis(e, x, -1);
  const ValueId wide = e.Widen(x);
  const ValueId centred = e.Sub(wide, e.Spread(e.Statistic(ReduceKind::kMean, wide, axis), wide));
  const ValueId square = e.Unary(UnaryKind::kSquare, centred);
  const ValueId variance = e.Statistic(ReduceKind::kMean, square, axis);
  const ValueId rstd = e.Unary(UnaryKind::kRsqrt, e.Add(variance, e.Scalar(eps)));
  const ValueId normal = e.Mul(centred, e.Spread(rstd, centred));
  return e.Finish(Affine(e, normal, gamma, beta));
}

absl::StatusOr<ValueId> AddRmsNorm(ChainBuilder& b, ValueId x, double eps, ValueId gamma) {
  Expander e(b, "rmsnorm");
  e.Check("x", x);
  CheckEps(e, eps);
  const int axis = CheckedAxis(e, x, -1);
  const ValueId wide = e.Widen(x);
  const ValueId square = e.Statistic(ReduceKind::kMean, e.Unary(UnaryKind::kSquare, wide), axis);
  const ValueId rrms = e.Unary(UnaryKind::kRsqrt, e.Add(square, e.Scalar(eps)));
  const ValueId normal = e.Mul(wide, e.Spread(rrms, wide));
  return e.Finish(Affine(e, normal, gamma, kNoValue));
}

absl::StatusOr<ValueId> AddRope(ChainBuilder& b, ValueId x, ValueId cos, ValueId sin) {
  Expander e(b, "rope");
  const int64_t half = CheckParts(e, "x", x, 2) / 2;
  const ValueId wide = e.Widen(x);
  const ValueId t1 = e.SliceLast(wide, 0, half), t2 = e.SliceLast(wide, half, half);
  const ValueId c = e.SpreadOperand("cos", cos, t1, true);
  const ValueId s = e.SpreadOperand("sin", sin, t1, true);
  const ValueId low = e.Sub(e.Mul(t1, c), e.Mul(t2, s));
  const ValueId high = e.Add(e.Mul(t2, c), e.Mul(t1, s));
  ValueId result = kNoValue;
  if (e.ok()) result = e.Take(b.Concat({low, high}, b.TypeOf(low).rank() - 1));
  return e.Finish(result);
}

absl::StatusOr<LstmResult> AddLstmCell(ChainBuilder& b, ValueId gates, ValueId c) {
  Expander e(b, "lstm_cell");
  const int64_t h = CheckParts(e, "gates", gates, 4) / 4;
  const ValueId wide = e.Widen(gates);
  const ValueId i = e.SliceLast(wide, 0, h), f = e.SliceLast(wide, h, h);
  const ValueId j = e.SliceLast(wide, 2 * h, h), o = e.SliceLast(wide, 3 * h, h);
  const ValueId kept = e.Mul(Sigmoid(e, f), e.WidenOperand("c", c, f, "a quarter of gates"));
  const ValueId added = e.Mul(Sigmoid(e, i), e.Unary(UnaryKind::kTanh, j));
  LstmResult result;
  result.c = e.Add(kept, added);
  result.h = e.Mul(Sigmoid(e, o), e.Unary(UnaryKind::kTanh, result.c));
  SINTER_RETURN_IF_ERROR(e.Finish());
  return result;
}

absl::StatusOr<ValueId> AddGruCell(ChainBuilder& b, ValueId xg, ValueId hg, ValueId h) {
  Expander e(b, "gru_cell");
  const int64_t size = CheckParts(e, "xg", xg, 3) / 3;
  CheckParts(e, "hg", hg, 3);
  const ValueId x = e.Widen(xg), g = e.WidenOperand("hg", hg, x, "the dims of xg");
  const auto part = [&](ValueId v, int index) { return e.SliceLast(v, index * size, size); };
  const ValueId r = Sigmoid(e, e.Add(part(x, 0), part(g, 0)));
  const ValueId z = Sigmoid(e, e.Add(part(x, 1), part(g, 1)));
  const ValueId n = e.Unary(UnaryKind::kTanh, e.Add(part(x, 2), e.Mul(r, part(g, 2))));
  const ValueId fresh = e.Mul(e.Sub(e.Scalar(1.0), z), n);
  return e.Finish(e.Add(fresh, e.Mul(z, e.WidenOperand("h", h, z, "a third of xg"))));
}

}  // namespace sinter
