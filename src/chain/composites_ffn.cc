// The products: linear layers, gemm_chain, gated_ffn, and whole chains of them.
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/composites.h"
#include "src/chain/expander.h"

namespace sinter {
namespace {

// What a product is multiplied by: a constant, a number of each row, and one of each column.
struct Scaling {
  double scale = 1;
  ValueId factor = kNoValue, columns = kNoValue;
};

ValueId LinearOf(Expander& e, ValueId x, ValueId w, ValueId bias, Layout layout,
                 const ProductFields& fields = {"x"}, const Scaling& scaling = {}) {
  ValueId product = e.MatmulOperands(fields.rows, x, fields.w, w, layout == Layout::kOI);
  if (scaling.scale != 1) product = e.Mul(product, e.Scalar(scaling.scale));
  if (scaling.factor != kNoValue) product = e.Mul(product, e.Spread(scaling.factor, product));
  if (scaling.columns != kNoValue) product = e.Mul(product, e.Spread(scaling.columns, product));
  return e.AddBias(product, fields, bias);
}

// Every operand that is given exists and has a's dtype; a and weights are matrices, biases vectors.
void CheckOperands(Expander& e, ValueId a,
                   std::initializer_list<std::pair<absl::string_view, ValueId>> others) {
  if (!e.Check("a", a)) return;
  if (e.Type(a).rank() != 2) {
    return e.Fail(absl::StrCat("a is ", ToString(e.Type(a)), ", its rank must be 2"));
  }
  for (const auto& [field, id] : others) {
    const bool bias = field[0] == 'b';
    if (bias && id == kNoValue) continue;
    if (!e.Check(field, id)) return;
    const TensorType& type = e.Type(id);
    const int rank = bias ? 1 : 2;
    if (type.dtype == e.Type(a).dtype && type.rank() == rank) continue;
    return e.Fail(
        InvalidField(field, ToString(type),
                     absl::StrCat("of a's dtype ", NameOf(e.Type(a).dtype), " and rank ", rank)));
  }
}

absl::Status CheckLayout(Layout layout) {
  if (layout == Layout::kOI || layout == Layout::kIO) return absl::OkStatus();
  return InvalidField("layout", static_cast<int>(layout), "oi or io");
}

// A whole FFN, product after product, with its inputs in the documented order.
class FfnMaker {
 public:
  explicit FfnMaker(const FfnSpec& spec) : spec_(spec), c_(spec.dtype, spec.m) {}

  absl::StatusOr<Chain> Make() {
    ValueId result = First();
    if (spec_.products == 2) result = Second(result);
    if (spec_.residual) result = WithResidual(result);
    return c_.Finish(result);
  }

 private:
  ValueId First() {
    const bool gated = spec_.gated, bias = spec_.bias1, scaled = spec_.scale_w1;
    const ValueId a = c_.Rows("a", spec_.k);
    const ValueId w = Weight(gated ? "w_gate" : "w1", spec_.k, spec_.n);
    const ValueId w_up = gated ? Weight("w_up", spec_.k, spec_.n) : kNoValue;
    const ValueId bias1 = c_.Constant(gated ? "bias_gate" : "bias1", {spec_.n}, bias);
    const ValueId bias_up = c_.Constant("bias_up", {spec_.n}, gated && bias);
    const ValueId factor = Factor("factor1", spec_.factor1);
    const ValueId of_w = ColumnScale(gated ? "scale_gate" : "scale_w1", spec_.n, scaled);
    const ValueId of_up = ColumnScale("scale_up", spec_.n, gated && scaled);
    const ValueId c = Product({spec_.scale1, factor, of_w}, a, w, bias1, spec_.act);
    if (!gated) return c;
    const ValueId up =
        Product({spec_.scale1, factor, of_up}, a, w_up, bias_up, Activation::kIdentity);
    return c_.Binary(BinaryKind::kMul, c, up);
  }

  ValueId Second(ValueId c) {
    const ValueId w2 = Weight(spec_.gated ? "w_down" : "w2", spec_.n, spec_.l);
    const ValueId bias2 = c_.Constant("bias2", {spec_.l}, spec_.bias2);
    const ValueId factor = Factor("factor2", spec_.factor2);
    const ValueId columns = ColumnScale("scale_w2", spec_.l, spec_.scale_w2);
    return Product({spec_.scale2, factor, columns}, c, w2, bias2, Activation::kIdentity);
  }

  ValueId WithResidual(ValueId e) {
    const ValueId r = c_.Rows("residual", spec_.products == 2 ? spec_.l : spec_.n);
    if (spec_.rounds_sum) {
      e = c_.Take(c_.b().Cast(e, spec_.dtype));
      e = c_.Take(c_.b().Cast(e, DType::kF32));
    }
    const ValueId wide = c_.Take(c_.b().Cast(r, DType::kF32));
    return c_.Take(AddActivation(c_.b(), spec_.sum_act, c_.Binary(BinaryKind::kAdd, e, wide)));
  }

  ValueId Weight(const char* name, int64_t in, int64_t out) {
    if (spec_.layout == Layout::kOI) return c_.Constant(name, {out, in});
    return c_.Constant(name, {in, out});
  }
  ValueId Factor(const char* name, bool wanted) {
    return wanted ? c_.Input(name, {spec_.factor_dtype, {spec_.m, Dim::Constant(1)}}) : kNoValue;
  }
  ValueId ColumnScale(const char* name, int64_t out, bool wanted) {
    return c_.Constant(name, {out}, wanted, spec_.scale_w_dtype);
  }
  // act(scale * factor * columns * (x W) + bias).
  ValueId Product(const Scaling& scaling, ValueId x, ValueId w, ValueId bias, Activation act) {
    Expander e(c_.b(), "linear");
    return c_.Take(
        e.Finish(e.Activate(act, LinearOf(e, x, w, bias, spec_.layout, {"x"}, scaling))));
  }

  const FfnSpec& spec_;
  WholeChain c_;
};

}  // namespace

absl::StatusOr<ValueId> AddLinear(ChainBuilder& b, ValueId x, ValueId w, ValueId bias,
                                  Layout layout, Activation act) {
  Expander e(b, "linear");
  if (absl::Status s = CheckLayout(layout); !s.ok()) e.Fail(s);
  return e.Finish(e.Activate(act, LinearOf(e, x, w, bias, layout)));
}

absl::StatusOr<ValueId> AddGemmChain(ChainBuilder& b, const GemmChainOperands& in, Activation act,
                                     Layout layout) {
  Expander e(b, "gemm_chain");
  if (absl::Status s = CheckLayout(layout); !s.ok()) e.Fail(s);
  CheckOperands(e, in.a, {{"w1", in.w1}, {"bias1", in.bias1}, {"w2", in.w2}, {"bias2", in.bias2}});
  const ValueId c =
      e.Activate(act, LinearOf(e, in.a, in.w1, in.bias1, layout, {"a", "w1", "bias1"}));
  const ValueId result = LinearOf(e, c, in.w2, in.bias2, layout, {"c", "w2", "bias2"});
  return e.Finish(e.ok() ? e.Cast(result, e.Type(in.a).dtype) : kNoValue);
}

absl::StatusOr<ValueId> AddGatedFfn(ChainBuilder& b, const GatedFfnOperands& in, Activation act,
                                    Layout layout) {
  Expander e(b, "gated_ffn");
  if (absl::Status s = CheckLayout(layout); !s.ok()) e.Fail(s);
  CheckOperands(e, in.a,
                {{"w_gate", in.w_gate},
                 {"w_up", in.w_up},
                 {"bias_gate", in.bias_gate},
                 {"bias_up", in.bias_up},
                 {"w_down", in.w_down},
                 {"bias2", in.bias2}});
  if (e.ok() && e.Type(in.w_up).dims != e.Type(in.w_gate).dims) {
    e.Fail(InvalidField("w_up", ToString(e.Type(in.w_up)),
                        absl::StrCat("as w_gate, ", ToString(e.Type(in.w_gate)))));
  }
  const ValueId gate = e.Activate(
      act, LinearOf(e, in.a, in.w_gate, in.bias_gate, layout, {"a", "w_gate", "bias_gate"}));
  const ValueId up = LinearOf(e, in.a, in.w_up, in.bias_up, layout, {"a", "w_up", "bias_up"});
  const ValueId result =
      LinearOf(e, e.Mul(gate, up), in.w_down, in.bias2, layout, {"c", "w_down", "bias2"});
  return e.Finish(e.ok() ? e.Cast(result, e.Type(in.a).dtype) : kNoValue);
}

absl::StatusOr<Chain> MakeFfnChain(const FfnSpec& spec) {
  if (spec.products != 1 && spec.products != 2) {
    return InvalidField("products", spec.products, "1 or 2");
  }
  if (spec.bias2 && spec.products == 1) return Invalid("bias2 is set, but there is one product");
  if ((spec.scale2 != 1 || spec.factor2 || spec.scale_w2) && spec.products == 1) {
    return Invalid("scale2, factor2 or scale_w2 is set, but there is one product");
  }
  if (spec.rounds_sum && !spec.residual) {
    return Invalid("rounds_sum is set, but there is no residual");
  }
  if (spec.sum_act != Activation::kIdentity && !spec.residual) {
    return Invalid("sum_act is set, but there is no residual");
  }
  return FfnMaker(spec).Make();
}

}  // namespace sinter
