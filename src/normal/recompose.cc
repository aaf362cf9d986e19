#include <algorithm>
#include <cmath>
#include <utility>

#include "src/normal/rules.h"

namespace sinter {
namespace {

constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kGeluCubic = 0.044715;
constexpr size_t kMostFactors = 8;
constexpr int kMostVisits = 64;  // of products that are one product

// As scalars of f32 are.
bool IsNumber(double value, double wanted) {
  return value == static_cast<double>(static_cast<float>(wanted));
}

// A product as what it multiplies.
struct Factors {
  double constant = 1;
  std::vector<ValueId> values;
  int visits = 0;  // of Collect
};

class Forms {
 public:
  explicit Forms(NormalGraph& graph) : graph_(graph) {}

  ValueId Known(ValueId id) {
    const Op& op = graph_.op(id);
    if (!IsFloat(op.type.dtype)) return id;
    dtype_ = op.type.dtype;
    ValueId with = -1;
    if (IsUnary(op, UnaryKind::kReciprocal)) with = OfReciprocal(op);
    if (IsUnary(op, UnaryKind::kLog) || IsUnary(op, UnaryKind::kLog1p)) with = OfLog(op);
    if (op.kind == OpKind::kSelect) with = OfSelect(op);
    if (op.kind == OpKind::kBinary) with = OfBinary(id);
    if (with < 0 || graph_.type(with).dims != graph_.type(id).dims) return id;
    return AsType(with, graph_.type(id).dtype, id);
  }

 private:
  const Op& op(ValueId id) const { return graph_.op(id); }

  // `x` in f32 if the replaced value is f32: another operand of f32 made it so.
  ValueId Wide(ValueId x) {
    const bool narrow = dtype_ == DType::kF32 && graph_.type(x).dtype != dtype_;
    return narrow ? graph_.AddCast(x, dtype_) : x;
  }

  // `value` with the dtype of what it replaces; that itself where only a rounding would do.
  ValueId AsType(ValueId value, DType dtype, ValueId replaced) {
    const DType own = graph_.type(value).dtype;
    if (own == dtype) return value;
    return dtype == DType::kF32 && IsFloat(own) ? graph_.AddCast(value, dtype) : replaced;
  }

  // A number, spread or not, widened or not.
  bool IsConstant(ValueId id, double* value) const {
    while (op(id).kind == OpKind::kBroadcast || op(id).kind == OpKind::kCast) {
      if (op(id).kind == OpKind::kCast && op(id).type.dtype != DType::kF32) return false;
      id = op(id).operands[0];
    }
    *value = op(id).scalar;
    return op(id).kind == OpKind::kScalar;
  }
  bool IsThe(ValueId id, double wanted) const {
    double value = 0;
    return IsConstant(id, &value) && IsNumber(value, wanted);
  }

  ValueId SkipWidening(ValueId id) const {
    while (op(id).kind == OpKind::kCast && op(id).type.dtype == DType::kF32 &&
           IsFloat(graph_.type(op(id).operands[0]).dtype)) {
      id = op(id).operands[0];
    }
    return id;
  }
  bool IsSame(ValueId a, ValueId b) const { return SkipWidening(a) == SkipWidening(b); }

  // x of 1 + exp(-x), -1 if `id` has another form.
  ValueId OfLogistic(ValueId id) const {
    const Op& sum = op(id);
    if (!IsBinary(sum, BinaryKind::kAdd)) return -1;
    const int side = IsThe(sum.operands[0], 1) ? 1 : 0;
    const Op& power = op(sum.operands[static_cast<size_t>(side)]);
    if (!IsThe(sum.operands[static_cast<size_t>(1 - side)], 1)) return -1;
    if (!IsUnary(power, UnaryKind::kExp)) return -1;
    const Op& negative = op(power.operands[0]);
    if (IsUnary(negative, UnaryKind::kNeg)) return negative.operands[0];
    if (!IsBinary(negative, BinaryKind::kMul)) return -1;
    if (IsThe(negative.operands[0], -1)) return negative.operands[1];
    return IsThe(negative.operands[1], -1) ? negative.operands[0] : -1;
  }

  ValueId OfReciprocal(const Op& reciprocal) {
    const ValueId below = reciprocal.operands[0];
    if (IsUnary(op(below), UnaryKind::kSqrt)) {
      return graph_.AddUnary(UnaryKind::kRsqrt, Wide(op(below).operands[0]));
    }
    const ValueId x = OfLogistic(below);
    return x < 0 ? -1 : graph_.AddUnary(UnaryKind::kSigmoid, Wide(x));
  }

  // x of log(1 + exp(x)) and log1p(exp(x)), which are infinite where exp(x) is.
  ValueId OfSoftplus(const Op& log) const {
    ValueId power = log.operands[0];
    if (log.unary == UnaryKind::kLog) {
      const Op& sum = op(power);
      if (!IsBinary(sum, BinaryKind::kAdd)) return -1;
      const size_t side = IsThe(sum.operands[0], 1) ? 1 : 0;
      if (!IsThe(sum.operands[1 - side], 1)) return -1;
      power = sum.operands[side];
    }
    const Op& exp = op(SkipWidening(power));
    if (!IsUnary(exp, UnaryKind::kExp)) return -1;
    const ValueId x = exp.operands[0];
    const bool small = IsUnary(op(x), UnaryKind::kNeg) &&
                       IsUnary(op(op(x).operands[0]), UnaryKind::kAbs);  // of the composite
    return small ? -1 : x;
  }

  // As the composite of src/chain writes it.
  ValueId OfLog(const Op& log) {
    const ValueId x = OfSoftplus(log);
    if (x < 0) return -1;
    const ValueId wide = Wide(SkipWidening(x));
    const ValueId magnitude = graph_.AddUnary(UnaryKind::kAbs, wide);
    const ValueId power =
        graph_.AddUnary(UnaryKind::kExp, graph_.AddUnary(UnaryKind::kNeg, magnitude));
    return graph_.AddBinary(BinaryKind::kAdd, graph_.AddUnary(UnaryKind::kRelu, wide),
                            graph_.AddUnary(UnaryKind::kLog1p, power));
  }

  // x <= 0 ? 0 : x
  ValueId OfSelect(const Op& select) {
    const Op& compare = op(select.operands[0]);
    if (compare.kind != OpKind::kCompare) return -1;
    const bool below = compare.compare == CompareKind::kLe || compare.compare == CompareKind::kLt;
    const ValueId x = select.operands[2];
    if (!below || !IsThe(compare.operands[1], 0) || !IsThe(select.operands[1], 0)) return -1;
    return IsSame(compare.operands[0], x) ? graph_.AddUnary(UnaryKind::kRelu, x) : -1;
  }

  ValueId OfBinary(ValueId id) {
    switch (op(id).binary) {
      case BinaryKind::kDiv:
        return OfDivision(op(id));
      case BinaryKind::kMax:
        return OfMax(op(id));
      case BinaryKind::kPow:
        return OfPower(op(id));
      case BinaryKind::kMul:
        return OfProduct(id);
      default:
        return -1;
    }
  }

  ValueId OfMax(const Op& max) {
    for (const size_t side : {0, 1}) {
      const ValueId x = max.operands[1 - side];
      if (IsThe(max.operands[side], 0) && graph_.type(x).dims == max.type.dims) {
        return graph_.AddUnary(UnaryKind::kRelu, x);
      }
    }
    return -1;
  }

  ValueId OfPower(const Op& power) {
    const ValueId x = power.operands[0];
    if (graph_.type(x).dims != power.type.dims) return -1;
    if (IsThe(power.operands[1], 2)) return graph_.AddUnary(UnaryKind::kSquare, Wide(x));
    if (IsThe(power.operands[1], -0.5)) return graph_.AddUnary(UnaryKind::kRsqrt, Wide(x));
    return -1;
  }

  ValueId OfDivision(const Op& division) {
    const ValueId x = division.operands[0], divisor = division.operands[1];
    const ValueId logistic = OfLogistic(divisor);
    if (logistic >= 0 && IsSame(logistic, x)) {
      const ValueId wide = Wide(x);
      return graph_.AddBinary(BinaryKind::kMul, wide, graph_.AddUnary(UnaryKind::kSigmoid, wide));
    }
    if (logistic >= 0 && IsThe(x, 1)) return graph_.AddUnary(UnaryKind::kSigmoid, Wide(logistic));
    const ValueId mean = OfSum(x, divisor);
    return mean >= 0 ? mean : OfRoot(x, divisor);
  }

  // A sum divided by the number of what it adds.
  ValueId OfSum(ValueId sum, ValueId divisor) {
    if (op(sum).kind != OpKind::kReduce || op(sum).reduce != ReduceKind::kSum) return -1;
    double value = 0, count = 1;
    if (!IsConstant(divisor, &value)) return -1;
    for (const int32_t axis : op(sum).axes) {
      const Dim dim = graph_.type(op(sum).operands[0]).dims[static_cast<size_t>(axis)];
      if (dim.symbolic) return -1;
      count *= static_cast<double>(dim.value);
    }
    if (value != count) return -1;
    Op mean = op(sum);
    mean.reduce = ReduceKind::kMean;
    return graph_.Add(std::move(mean));
  }

  // x / sqrt(v) of a statistic, which is spread over x.
  ValueId OfRoot(ValueId x, ValueId divisor) {
    if (op(divisor).kind != OpKind::kBroadcast) return -1;
    const ValueId root = op(divisor).operands[0];
    if (!IsUnary(op(root), UnaryKind::kSqrt)) return -1;
    const ValueId inverse = graph_.AddUnary(UnaryKind::kRsqrt, Wide(op(root).operands[0]));
    return graph_.AddBinary(BinaryKind::kMul, x,
                            graph_.AddView(OpKind::kBroadcast, inverse, graph_.type(divisor).dims));
  }

  // The factors of `id`, down to `stop` and to values that are not products. False if there are
  // too many.
  bool Collect(ValueId id, ValueId stop, Factors* factors) const {
    double number = 0;
    if (++factors->visits > kMostVisits || factors->values.size() > kMostFactors) return false;
    if (id != stop && IsConstant(id, &number)) {
      factors->constant *= number;
      return true;
    }
    const ValueId below = SkipWidening(id);
    const Op& of = op(below);
    if (below != stop && IsBinary(of, BinaryKind::kMul)) {
      return Collect(of.operands[0], stop, factors) && Collect(of.operands[1], stop, factors);
    }
    size_t times = 1;
    if (below != stop && IsUnary(of, UnaryKind::kSquare)) times = 2;
    if (below != stop && IsBinary(of, BinaryKind::kPow) && IsThe(of.operands[1], 3)) times = 3;
    const ValueId value = times > 1 ? SkipWidening(of.operands[0]) : below;
    factors->values.insert(factors->values.end(), times, value);
    return true;
  }

  // Whether `id` is constant * x^power.
  bool IsPowerOf(ValueId id, ValueId x, double constant, size_t power) const {
    Factors factors;
    return Collect(id, x, &factors) && IsNumber(factors.constant, constant) &&
           factors.values == std::vector<ValueId>(power, x);
  }

  // 1 + f(inner) as `inner`; -1 if `id` has another form. `f`: erf or tanh.
  ValueId OfOnePlus(ValueId id, UnaryKind f) const {
    const Op& sum = op(id);
    if (!IsBinary(sum, BinaryKind::kAdd)) return -1;
    for (const size_t side : {0, 1}) {
      const Op& function = op(SkipWidening(sum.operands[side]));
      if (IsUnary(function, f) && IsThe(sum.operands[1 - side], 1)) return function.operands[0];
    }
    return -1;
  }

  // x of sqrt(2 / pi) * (x + 0.044715 x^3), or of x * sqrt(2 / pi) * (1 + 0.044715 x^2).
  ValueId OfCubic(ValueId inner) const {
    Factors factors;
    if (!Collect(inner, -1, &factors) || !IsNumber(factors.constant, kSqrtTwoOverPi)) return -1;
    const std::vector<ValueId>& values = factors.values;
    for (const ValueId value : values) {
      const Op& sum = op(value);
      if (!IsBinary(sum, BinaryKind::kAdd)) continue;
      for (const size_t side : {0, 1}) {
        const ValueId one = sum.operands[side], other = sum.operands[1 - side];
        if (values.size() == 1 && IsPowerOf(other, SkipWidening(one), kGeluCubic, 3)) {
          return SkipWidening(one);
        }
        if (values.size() != 2 || !IsThe(one, 1)) continue;
        const ValueId x = values[0] == value ? values[1] : values[0];
        if (IsPowerOf(other, x, kGeluCubic, 2)) return x;
      }
    }
    return -1;
  }

  // x of sqrt(1 / 2) * x
  ValueId OfScaled(ValueId inner) const {
    const Op& scaled = op(SkipWidening(inner));
    if (!IsBinary(scaled, BinaryKind::kMul)) return -1;
    for (const size_t side : {0, 1}) {
      if (IsThe(scaled.operands[side], kSqrtHalf)) return SkipWidening(scaled.operands[1 - side]);
    }
    return -1;
  }

  // GELU by its definition with erf, or with tanh: x / 2 * (1 + f(inner of x)).
  ValueId OfProduct(ValueId id) {
    Factors all;
    if (!Collect(id, -1, &all)) return -1;
    for (const ValueId value : all.values) {
      const ValueId of_tanh = OfOnePlus(value, UnaryKind::kTanh);
      const ValueId of_erf = of_tanh < 0 ? OfOnePlus(value, UnaryKind::kErf) : -1;
      const ValueId inner = std::max(of_tanh, of_erf);
      if (inner < 0) continue;
      const ValueId x = of_tanh >= 0 ? OfCubic(inner) : OfScaled(inner);
      Factors factors;
      if (x < 0 || !Collect(id, x, &factors) || factors.constant != 0.5) continue;
      std::vector<ValueId> wanted = {x, value};
      std::sort(wanted.begin(), wanted.end());
      std::sort(factors.values.begin(), factors.values.end());
      if (factors.values != wanted || graph_.type(x).dims != op(id).type.dims) continue;
      return IsGelu(id, x, of_tanh >= 0) ? -1 : AddGelu(x, of_tanh >= 0);
    }
    return -1;
  }

  // Whether the ops equal the composite's already, in their order.
  bool IsGelu(ValueId id, ValueId x, bool tanh) const {
    const Op &half = op(op(id).operands[0]), &sum = op(op(id).operands[1]);
    if (!IsBinary(half, BinaryKind::kMul) || !IsBinary(sum, BinaryKind::kAdd)) return false;
    if (!IsThe(half.operands[0], 0.5) || !IsSame(half.operands[1], x)) return false;
    if (!IsThe(sum.operands[0], 1)) return false;
    const Op& inner = op(op(sum.operands[1]).operands[0]);
    if (!IsBinary(inner, BinaryKind::kMul) || op(inner.operands[0]).kind != OpKind::kScalar) {
      return false;
    }
    if (!tanh) return true;
    const Op& cubic = op(inner.operands[1]);
    if (!IsBinary(cubic, BinaryKind::kAdd) || !IsSame(cubic.operands[0], x)) return false;
    const Op& scaled = op(cubic.operands[1]);
    if (!IsBinary(scaled, BinaryKind::kMul) || op(scaled.operands[0]).kind != OpKind::kScalar) {
      return false;
    }
    const Op& cube = op(scaled.operands[1]);
    return IsBinary(cube, BinaryKind::kMul) && IsSame(cube.operands[0], x) &&
           IsUnary(op(cube.operands[1]), UnaryKind::kSquare);
  }

  // As the composites of src/chain write them.
  ValueId AddGelu(ValueId x, bool tanh) {
    if (graph_.type(x).dtype != DType::kF32) x = graph_.AddCast(x, DType::kF32);
    const auto times = [&](double number, ValueId value) {
      const double single = static_cast<float>(number);
      return graph_.AddBinary(BinaryKind::kMul, graph_.AddScalar(single, DType::kF32), value);
    };
    ValueId inner = -1;
    if (tanh) {
      const ValueId cube =
          graph_.AddBinary(BinaryKind::kMul, x, graph_.AddUnary(UnaryKind::kSquare, x));
      inner = times(kSqrtTwoOverPi, graph_.AddBinary(BinaryKind::kAdd, x, times(kGeluCubic, cube)));
    } else {
      inner = times(kSqrtHalf, x);
    }
    const ValueId f = graph_.AddUnary(tanh ? UnaryKind::kTanh : UnaryKind::kErf, inner);
    const ValueId sum = graph_.AddBinary(BinaryKind::kAdd, graph_.AddScalar(1, DType::kF32), f);
    return graph_.AddBinary(BinaryKind::kMul, times(0.5, x), sum);
  }

  DType dtype_ = DType::kF32;  // of the value looked at
  NormalGraph& graph_;
};

}  // namespace

bool KnownForms(NormalGraph& graph) {
  return graph.Rewrite([&](ValueId id) { return Forms(graph).Known(id); });
}

}  // namespace sinter
