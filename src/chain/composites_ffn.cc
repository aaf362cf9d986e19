// The products: linear layers, gemm_chain, gated_ffn, and whole chains of them.
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

ValueId Linear(Expander& e, ValueId x, ValueId w, ValueId bias, Layout layout,
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
    return e.Fail(absl::StrCat(field, " is ", ToString(type), ", must be of a's dtype ",
                               NameOf(e.Type(a).dtype), " and rank ", rank));
  }
}

absl::Status CheckLayout(Layout layout) {
  if (layout == Layout::kOI || layout == Layout::kIO) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("layout is ", static_cast<int>(layout), ", must be oi or io"));
}

// The inputs of a whole chain, in the documented order.
class FfnInputs {
 public:
  FfnInputs(ChainBuilder& builder, const FfnSpec& spec) : builder_(builder), spec_(spec) {}
  absl::StatusOr<ValueId> Activations() {
    return builder_.Input({spec_.dtype, {spec_.m, Dim::Constant(spec_.k)}}, {false, {}, "a"});
  }
  absl::StatusOr<ValueId> Weight(absl::string_view name, int64_t in, int64_t out) {
    const bool oi = spec_.layout == Layout::kOI;
    const std::vector<Dim> dims = {Dim::Constant(oi ? out : in), Dim::Constant(oi ? in : out)};
    return builder_.Input({spec_.dtype, dims}, {true, {}, std::string(name)});
  }
  absl::StatusOr<ValueId> Bias(absl::string_view name, int64_t out, bool wanted) {
    if (!wanted) return kNoValue;
    return builder_.Input({spec_.dtype, {Dim::Constant(out)}}, {true, {}, std::string(name)});
  }
  absl::StatusOr<ValueId> Factor(absl::string_view name, bool wanted) {
    if (!wanted) return kNoValue;
    return builder_.Input({spec_.factor_dtype, {spec_.m, Dim::Constant(1)}},
                          {false, {}, std::string(name)});
  }
  absl::StatusOr<ValueId> ColumnScale(absl::string_view name, int64_t out, bool wanted) {
    if (!wanted) return kNoValue;
    return builder_.Input({spec_.scale_w_dtype, {Dim::Constant(out)}},
                          {true, {}, std::string(name)});
  }
  absl::StatusOr<ValueId> Residual(int64_t columns) {
    return builder_.Input({spec_.dtype, {spec_.m, Dim::Constant(columns)}},
                          {false, {}, "residual"});
  }

 private:
  ChainBuilder& builder_;
  const FfnSpec& spec_;
};

// act(scale * factor * columns * (x W) + bias).
absl::StatusOr<ValueId> ScaledLinear(ChainBuilder& b, const Scaling& scaling, ValueId x, ValueId w,
                                     ValueId bias, Layout layout, Activation act) {
  Expander e(b, "linear");
  return e.Finish(e.Activate(act, Linear(e, x, w, bias, layout, {"x"}, scaling)));
}

// C of a plain chain.
absl::StatusOr<ValueId> PlainFirst(ChainBuilder& b, const FfnSpec& s, FfnInputs& inputs) {
  SINTER_ASSIGN_OR_RETURN(const ValueId a, inputs.Activations());
  SINTER_ASSIGN_OR_RETURN(const ValueId w1, inputs.Weight("w1", s.k, s.n));
  SINTER_ASSIGN_OR_RETURN(const ValueId bias1, inputs.Bias("bias1", s.n, s.bias1));
  SINTER_ASSIGN_OR_RETURN(const ValueId factor, inputs.Factor("factor1", s.factor1));
  SINTER_ASSIGN_OR_RETURN(const ValueId columns, inputs.ColumnScale("scale_w1", s.n, s.scale_w1));
  return ScaledLinear(b, {s.scale1, factor, columns}, a, w1, bias1, s.layout, s.act);
}

// C of a gated one.
absl::StatusOr<ValueId> GatedFirst(ChainBuilder& b, const FfnSpec& s, FfnInputs& inputs) {
  SINTER_ASSIGN_OR_RETURN(const ValueId a, inputs.Activations());
  SINTER_ASSIGN_OR_RETURN(const ValueId w_gate, inputs.Weight("w_gate", s.k, s.n));
  SINTER_ASSIGN_OR_RETURN(const ValueId w_up, inputs.Weight("w_up", s.k, s.n));
  SINTER_ASSIGN_OR_RETURN(const ValueId bias_gate, inputs.Bias("bias_gate", s.n, s.bias1));
  SINTER_ASSIGN_OR_RETURN(const ValueId bias_up, inputs.Bias("bias_up", s.n, s.bias1));
  SINTER_ASSIGN_OR_RETURN(const ValueId factor, inputs.Factor("factor1", s.factor1));
  SINTER_ASSIGN_OR_RETURN(const ValueId of_gate, inputs.ColumnScale("scale_gate", s.n, s.scale_w1));
  SINTER_ASSIGN_OR_RETURN(const ValueId of_up, inputs.ColumnScale("scale_up", s.n, s.scale_w1));
  SINTER_ASSIGN_OR_RETURN(const ValueId gate, ScaledLinear(b, {s.scale1, factor, of_gate}, a,
                                                           w_gate, bias_gate, s.layout, s.act));
  SINTER_ASSIGN_OR_RETURN(const ValueId up, ScaledLinear(b, {s.scale1, factor, of_up}, a, w_up,
                                                         bias_up, s.layout, Activation::kIdentity));
  return b.Binary(BinaryKind::kMul, gate, up);
}

absl::StatusOr<ValueId> SecondOf(ChainBuilder& b, const FfnSpec& s, FfnInputs& inputs, ValueId c) {
  SINTER_ASSIGN_OR_RETURN(const ValueId w2, inputs.Weight(s.gated ? "w_down" : "w2", s.n, s.l));
  SINTER_ASSIGN_OR_RETURN(const ValueId bias2, inputs.Bias("bias2", s.l, s.bias2));
  SINTER_ASSIGN_OR_RETURN(const ValueId factor, inputs.Factor("factor2", s.factor2));
  SINTER_ASSIGN_OR_RETURN(const ValueId columns, inputs.ColumnScale("scale_w2", s.l, s.scale_w2));
  return ScaledLinear(b, {s.scale2, factor, columns}, c, w2, bias2, s.layout,
                      Activation::kIdentity);
}

absl::StatusOr<ValueId> WithResidual(ChainBuilder& b, const FfnSpec& s, FfnInputs& inputs,
                                     ValueId e) {
  if (!s.residual) return e;
  SINTER_ASSIGN_OR_RETURN(ValueId r, inputs.Residual(s.products == 2 ? s.l : s.n));
  if (s.rounds_sum) {
    SINTER_ASSIGN_OR_RETURN(e, b.Cast(e, s.dtype));
    SINTER_ASSIGN_OR_RETURN(e, b.Cast(e, DType::kF32));
  }
  SINTER_ASSIGN_OR_RETURN(r, b.Cast(r, DType::kF32));
  SINTER_ASSIGN_OR_RETURN(const ValueId sum, b.Binary(BinaryKind::kAdd, e, r));
  return AddActivation(b, s.sum_act, sum);
}

}  // namespace

absl::StatusOr<ValueId> AddLinear(ChainBuilder& b, ValueId x, ValueId w, ValueId bias,
                                  Layout layout, Activation act) {
  Expander e(b, "linear");
  if (absl::Status s = CheckLayout(layout); !s.ok()) e.Fail(s.message());
  return e.Finish(e.Activate(act, Linear(e, x, w, bias, layout)));
}

absl::StatusOr<ValueId> AddGemmChain(ChainBuilder& b, const GemmChainOperands& in, Activation act,
                                     Layout layout) {
  Expander e(b, "gemm_chain");
  if (absl::Status s = CheckLayout(layout); !s.ok()) e.Fail(s.message());
  CheckOperands(e, in.a, {{"w1", in.w1}, {"bias1", in.bias1}, {"w2", in.w2}, {"bias2", in.bias2}});
  const ValueId c = e.Activate(act, Linear(e, in.a, in.w1, in.bias1, layout, {"a", "w1", "bias1"}));
  const ValueId result = Linear(e, c, in.w2, in.bias2, layout, {"c", "w2", "bias2"});
  return e.Finish(e.ok() ? e.Cast(result, e.Type(in.a).dtype) : kNoValue);
}

absl::StatusOr<ValueId> AddGatedFfn(ChainBuilder& b, const GatedFfnOperands& in, Activation act,
                                    Layout layout) {
  Expander e(b, "gated_ffn");
  if (absl::Status s = CheckLayout(layout); !s.ok()) e.Fail(s.message());
  CheckOperands(e, in.a,
                {{"w_gate", in.w_gate},
                 {"w_up", in.w_up},
                 {"bias_gate", in.bias_gate},
                 {"bias_up", in.bias_up},
                 {"w_down", in.w_down},
                 {"bias2", in.bias2}});
  if (e.ok() && e.Type(in.w_up).dims != e.Type(in.w_gate).dims) {
    e.Fail(absl::StrCat("w_up is ", ToString(e.Type(in.w_up)), ", must be as w_gate, ",
                        ToString(e.Type(in.w_gate))));
  }
  const ValueId gate = e.Activate(
      act, Linear(e, in.a, in.w_gate, in.bias_gate, layout, {"a", "w_gate", "bias_gate"}));
  const ValueId up = Linear(e, in.a, in.w_up, in.bias_up, layout, {"a", "w_up", "bias_up"});
  const ValueId result =
      Linear(e, e.Mul(gate, up), in.w_down, in.bias2, layout, {"c", "w_down", "bias2"});
  return e.Finish(e.ok() ? e.Cast(result, e.Type(in.a).dtype) : kNoValue);
}

absl::StatusOr<Chain> MakeFfnChain(const FfnSpec& spec) {
  if (spec.products != 1 && spec.products != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("products is ", spec.products, ", must be 1 or 2"));
  }
  if (spec.bias2 && spec.products == 1) {
    return absl::InvalidArgumentError("bias2 is set, but there is one product");
  }
  if ((spec.scale2 != 1 || spec.factor2 || spec.scale_w2) && spec.products == 1) {
    return absl::InvalidArgumentError(
        "scale2, factor2 or scale_w2 is set, but there is one product");
  }
  if (spec.rounds_sum && !spec.residual) {
    return absl::InvalidArgumentError("rounds_sum is set, but there is no residual");
  }
  if (spec.sum_act != Activation::kIdentity && !spec.residual) {
    return absl::InvalidArgumentError("sum_act is set, but there is no residual");
  }
  ChainBuilder b;
  FfnInputs inputs(b, spec);
  SINTER_ASSIGN_OR_RETURN(ValueId result,
                          spec.gated ? GatedFirst(b, spec, inputs) : PlainFirst(b, spec, inputs));
  if (spec.products == 2) {
    SINTER_ASSIGN_OR_RETURN(result, SecondOf(b, spec, inputs, result));
  }
  SINTER_ASSIGN_OR_RETURN(result, WithResidual(b, spec, inputs, result));
  SINTER_ASSIGN_OR_RETURN(result, b.Cast(result, spec.dtype));
  SINTER_RETURN_IF_ERROR(b.Output(result));
  return b.Finish();
}

}  // namespace sinter
