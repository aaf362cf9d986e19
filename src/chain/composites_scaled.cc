// Quantisation, and products of quantised values.
#include <array>
#include <limits>
#include <numeric>
#include <vector>

#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/composites.h"
#include "src/chain/expander.h"
#include "src/chain/infer.h"

namespace sinter {
namespace {

constexpr std::array<absl::string_view, 4> kNames = {"tensor", "row", "group", "static"};
constexpr double kLeastEps = 1e-30;  // its quotients are normal numbers of f32

void CheckX(Expander& e, ValueId x, Granularity granularity) {
  if (!e.Check("x", x)) return;
  const TensorType& type = e.Type(x);
  if (!IsFloat(type.dtype)) {
    return e.Fail(InvalidField("dtype of x", NameOf(type.dtype), "f32, f16 or bf16"));
  }
  if (granularity == Granularity::kTensor || granularity == Granularity::kStatic) return;
  const int64_t parts = granularity == Granularity::kGroup ? kScaleBlock : 1;
  const bool fits =
      type.rank() > 0 && !type.dims.back().symbolic && type.dims.back().value % parts == 0;
  if (fits) return;
  e.Fail(absl::StrCat("x is ", ToString(type), ", its last dimension must be a constant",
                      parts > 1 ? " multiple of 128" : ""));
}

void CheckNumbers(Expander& e, const QuantizeSpec& spec) {
  if (!(spec.eps >= kLeastEps && spec.eps <= 1)) {
    return e.Fail(InvalidField("eps", spec.eps, "in [1e-30, 1]"));
  }
  const double largest = std::numeric_limits<float>::max();
  if (spec.upper_bound != 0 && !(spec.upper_bound >= spec.eps && spec.upper_bound <= largest)) {
    e.Fail(InvalidField("upper_bound", spec.upper_bound,
                        absl::StrCat("0 or in [eps, ", largest, "], eps is ", spec.eps)));
  }
}

void CheckStatic(Expander& e, const QuantizeSpec& spec) {
  if (spec.granularity != Granularity::kStatic) {
    if (spec.scale == kNoValue) return;
    return e.Fail(absl::StrCat("scale is value ", spec.scale, ", must be none for granularity ",
                               NameOf(spec.granularity)));
  }
  if (spec.ue8m0) return e.Fail(InvalidField("ue8m0", "true", "false for granularity static"));
  if (spec.upper_bound != 0) {
    return e.Fail(InvalidField("upper_bound", spec.upper_bound, "0 for granularity static"));
  }
  if (!e.Check("scale", spec.scale)) return;
  const TensorType& type = e.Type(spec.scale);
  if (type.dtype == DType::kF32 && type.rank() == 0) return;
  e.Fail(InvalidField("scale", ToString(type), "f32[]"));
}

void CheckSpec(Expander& e, const QuantizeSpec& spec) {
  if (!IsValid(spec.granularity)) {
    return e.Fail(absl::StrCat("granularity is ", static_cast<int32_t>(spec.granularity),
                               ", which does not exist"));
  }
  if (!IsCode(spec.codes)) {
    return e.Fail(InvalidFields("codes", NameOf(spec.codes), "e4m3 or s8"));
  }
  if (spec.codes == DType::kS8 && spec.granularity == Granularity::kGroup) {
    return e.Fail(InvalidField("granularity", "group", "tensor, row or static for s8"));
  }
  if (spec.codes == DType::kS8 && spec.ue8m0) {
    return e.Fail(InvalidField("ue8m0", "true", "false for s8"));
  }
  CheckNumbers(e, spec);
  CheckStatic(e, spec);
}

// The last axis of `x` cut into groups.
ValueId InGroups(Expander& e, ValueId x) {
  if (!e.ok()) return kNoValue;
  std::vector<Dim> dims = e.Type(x).dims;
  dims.back() = Dim::Constant(dims.back().value / kScaleBlock);
  dims.push_back(Dim::Constant(kScaleBlock));
  return e.Take(e.builder().Reshape(x, dims));
}

// The largest magnitudes. A whole tensor is reduced over the rows first: kernels join columns over
// M.
ValueId LargestMagnitude(Expander& e, ValueId x, Granularity granularity) {
  const ValueId magnitude = e.Unary(UnaryKind::kAbs, x);
  const int rank = e.ok() ? e.Type(x).rank() : 0;
  if (rank == 0) return magnitude;
  if (granularity != Granularity::kTensor) {
    return e.Statistic(ReduceKind::kMax, magnitude, rank - 1);
  }
  ValueId columns = magnitude;
  if (rank > 1) {
    std::vector<int32_t> leading(static_cast<size_t>(rank) - 1);
    std::iota(leading.begin(), leading.end(), 0);
    columns = e.Take(e.builder().Reduce(ReduceKind::kMax, magnitude, leading));
  }
  return e.ok() ? e.Take(e.builder().Reduce(ReduceKind::kMax, columns, {0})) : kNoValue;
}

// What x is multiplied by, and the scale.
struct Factor {
  ValueId inverse = kNoValue, scale = kNoValue;
};

Factor FactorOf(Expander& e, ValueId x, const QuantizeSpec& spec) {
  if (spec.granularity == Granularity::kStatic) {
    return {e.Unary(UnaryKind::kReciprocal, spec.scale), spec.scale};
  }
  ValueId largest = LargestMagnitude(e, x, spec.granularity);
  if (spec.upper_bound != 0) {
    largest = e.Binary(BinaryKind::kMin, largest, e.Scalar(spec.upper_bound));
  }
  largest = e.Binary(BinaryKind::kMax, largest, e.Scalar(spec.eps));
  const ValueId most = e.Scalar(LargestOf(spec.codes));
  const ValueId scale = e.Binary(BinaryKind::kDiv, largest, most);
  if (!spec.ue8m0) return {e.Binary(BinaryKind::kDiv, most, largest), scale};
  const ValueId power = e.Unary(UnaryKind::kCeilPow2, scale);
  return {e.Unary(UnaryKind::kReciprocal, power), power};
}

Scaled Quantize(Expander& e, ValueId x, const QuantizeSpec& spec) {
  const ValueId wide = e.Widen(x);
  const bool groups = spec.granularity == Granularity::kGroup;
  const ValueId parts = groups ? InGroups(e, wide) : wide;
  const Factor factor = FactorOf(e, parts, spec);
  const bool spreads = e.ok() && e.Type(factor.inverse).rank() > 0;
  const ValueId inverse = spreads ? e.Spread(factor.inverse, parts) : factor.inverse;
  const ValueId scaled = e.Mul(parts, inverse);
  if (!groups || !e.ok()) return {e.Cast(scaled, spec.codes), factor.scale};
  std::vector<Dim> dims = e.Type(factor.scale).dims;
  dims.pop_back();
  // The cast is last, so that what stores the codes rounds them.
  return {e.Cast(e.Reshape(scaled, e.Type(x).dims), spec.codes), e.Reshape(factor.scale, dims)};
}

ValueId ScaledLinearOf(Expander& e, Scaled a, Scaled w, ValueId bias, Activation act,
                       Accumulate accumulate, const ProductFields& fields = {"a"}) {
  if (!e.ok()) return kNoValue;
  const ValueId y =
      e.TakeAs(absl::StrCat(fields.rows, " times ", fields.w),
               e.builder().ScaledMatmul(a.codes, w.codes, a.scale, w.scale, accumulate));
  return e.Activate(act, e.AddBias(y, fields, bias));
}

}  // namespace

absl::string_view NameOf(Granularity granularity) {
  return IsValid(granularity) ? kNames[static_cast<size_t>(granularity) - 1] : "unknown";
}

absl::StatusOr<Granularity> ParseGranularity(absl::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<Granularity>(i + 1);
  }
  return InvalidField("granularity", name, "one of tensor row group static");
}

bool IsValid(Granularity granularity) {
  const auto number = static_cast<int32_t>(granularity);
  return number >= 1 && number <= static_cast<int32_t>(kNames.size());
}

absl::StatusOr<Scaled> AddQuantize(ChainBuilder& b, ValueId x, const QuantizeSpec& spec) {
  Expander e(b, "quantize");
  CheckSpec(e, spec);
  if (e.ok()) CheckX(e, x, spec.granularity);
  Scaled result;
  if (e.ok()) result = Quantize(e, x, spec);
  SINTER_RETURN_IF_ERROR(e.Finish());
  return result;
}

absl::StatusOr<ValueId> AddScaledLinear(ChainBuilder& b, Scaled a, Scaled w, ValueId bias,
                                        Activation act, Accumulate accumulate) {
  Expander e(b, "scaled_matmul");
  return e.Finish(ScaledLinearOf(e, a, w, bias, act, accumulate));
}

absl::StatusOr<ValueId> AddScaledFfn(ChainBuilder& b, const ScaledFfnOperands& in, bool gated,
                                     const QuantizeSpec& quantize, Activation act,
                                     Accumulate accumulate) {
  Expander e(b, gated ? "scaled_gated_ffn" : "scaled_gemm_chain");
  const ProductFields first =
      gated ? ProductFields{"a", "w_gate", "bias_gate"} : ProductFields{"a", "w1", "bias1"};
  ValueId c = ScaledLinearOf(e, in.a, in.w1, in.bias1, act, accumulate, first);
  if (gated) {
    const ValueId up = ScaledLinearOf(e, in.a, in.w_up, in.bias_up, Activation::kIdentity,
                                      accumulate, {"a", "w_up", "bias_up"});
    if (e.ok() && e.Type(up).dims != e.Type(c).dims) {
      e.Fail(InvalidField("w_up", ToString(e.Type(in.w_up.codes)),
                          absl::StrCat("as w_gate, ", ToString(e.Type(in.w1.codes)))));
    }
    c = e.Mul(c, up);
  }
  Scaled quantized;
  if (e.ok()) {
    absl::StatusOr<Scaled> codes = AddQuantize(b, c, quantize);
    if (codes.ok()) quantized = *codes;
    if (!codes.ok()) e.FailAs("the quantising of c", codes.status());
  }
  return e.Finish(ScaledLinearOf(e, quantized, in.w2, in.bias2, Activation::kIdentity, accumulate,
                                 {"c", gated ? "w_down" : "w2", "bias2"}));
}

}  // namespace sinter
