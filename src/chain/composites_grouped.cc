// The gated FFN of a mixture of experts.
#include <cmath>
#include <tuple>
#include <utility>

#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/composites.h"
#include "src/chain/expander.h"

namespace sinter {
namespace {

// Whether `w` holds matrices [experts, rows, columns] that rows can be multiplied by; else the
// error says why not.
bool CheckExperts(Expander& e, absl::string_view field, ValueId w) {
  if (!e.CheckFloat(field, w)) return false;
  if (e.Type(w).rank() == 3) return true;
  e.Fail(absl::StrCat(field, " is ", ToString(e.Type(w)), ", its rank must be 3"));
  return false;
}

// The shapes that the errors of single ops would not name as the caller does.
void CheckFfn(Expander& e, const GroupedFfnOperands& in, Layout layout) {
  if (!e.CheckFloat("a", in.a) || !e.Check("ids", in.ids) || !e.CheckFloat("weights", in.weights) ||
      !CheckExperts(e, "w1", in.w1) || !CheckExperts(e, "w2", in.w2)) {
    return;
  }
  if (e.Type(in.a).rank() != 2) {
    return e.Fail(absl::StrCat("a is ", ToString(e.Type(in.a)), ", its rank must be 2"));
  }
  if (e.Type(in.weights).dims != e.Type(in.ids).dims) {
    return e.Fail(absl::StrCat("weights is ", ToString(e.Type(in.weights)), ", must have the dims ",
                               ToString(absl::MakeConstSpan(e.Type(in.ids).dims)),
                               ": the dims of ids"));
  }
  for (const auto& [field, w] : {std::pair("w1", in.w1), std::pair("w2", in.w2)}) {
    if (e.Type(w).dtype == e.Type(in.a).dtype) continue;
    return e.Fail(InvalidField(field, ToString(e.Type(w)),
                               absl::StrCat("of a's dtype ", NameOf(e.Type(in.a).dtype))));
  }
  const std::vector<Dim>&w1 = e.Type(in.w1).dims, &w2 = e.Type(in.w2).dims;
  if (w1[0] != w2[0]) {
    return e.Fail(absl::StrCat("experts of w2 are ", ToString(w2[0]), ", of w1 ", ToString(w1[0]),
                               ": must be equal"));
  }
  const Dim both = w1[layout == Layout::kOI ? 1 : 2], n = w2[layout == Layout::kOI ? 2 : 1];
  if (both.symbolic || n.symbolic || both.value != 2 * n.value) {
    return e.Fail(absl::StrCat("w1 is ", ToString(e.Type(in.w1)), ", w2 ", ToString(e.Type(in.w2)),
                               ": w1 must have twice the ", ToString(n), " columns that w2 takes"));
  }
  const Dim l = w2[layout == Layout::kOI ? 1 : 2];
  for (const auto& [field, bias, columns] :
       {std::tuple("bias1", in.bias1, both), std::tuple("bias2", in.bias2, l)}) {
    if (bias == kNoValue) continue;
    if (!e.CheckFloat(field, bias)) return;
    const std::vector<Dim> dims{w1[0], columns};
    if (e.Type(bias).dims == dims) continue;
    return e.Fail(absl::StrCat(field, " is ", ToString(e.Type(bias)), ", must have the dims ",
                               ToString(absl::MakeConstSpan(dims)),
                               ": the experts, and a bias of each of their columns"));
  }
}

void CheckOptions(Expander& e, const GroupedFfnOptions& o) {
  if (o.layout != Layout::kOI && o.layout != Layout::kIO) {
    e.Fail(InvalidField("layout", static_cast<int>(o.layout), "oi or io"));
  }
  for (const auto& [field, value] :
       {std::pair("alpha", o.alpha), std::pair("beta", o.beta), std::pair("limit", o.limit)}) {
    if (!std::isfinite(value)) e.Fail(InvalidField(field, value, "finite"));
  }
  if (o.alpha != 1 && o.act != Activation::kSilu) {
    e.Fail(InvalidField("alpha", o.alpha, absl::StrCat("1 with the activation ", NameOf(o.act)),
                        ": only silu has it"));
  }
  if (o.alpha == 0)
    e.Fail(InvalidField("alpha", "0", "another number", ": gate * sigmoid(0) is gate / 2"));
  if (o.limit < 0) {
    e.Fail(InvalidField("limit", o.limit, "more than 0, or 0 for none"));
  }
}

// act(gate) * (up + beta) of what limits leave.
ValueId GatedProduct(Expander& e, ValueId gate, ValueId up, const GroupedFfnOptions& o) {
  if (o.limit > 0) {
    gate = e.Binary(BinaryKind::kMin, gate, e.Scalar(o.limit));
    up = e.ok() ? e.Take(AddClamp(e.builder(), up, -o.limit, o.limit)) : -1;
  }
  if (o.beta != 0) up = e.Add(up, e.Scalar(o.beta));
  if (o.alpha == 1) return e.Mul(e.Activate(o.act, gate), up);
  const ValueId sigmoid = e.Unary(UnaryKind::kSigmoid, e.Mul(gate, e.Scalar(o.alpha)));
  return e.Mul(e.Mul(gate, sigmoid), up);
}

// Columns of gate, `first` 0, or up, 1, among the 2 n of `both`.
ValueId Columns(Expander& e, ValueId both, int64_t first, int64_t n, GateOrder order) {
  if (order == GateOrder::kUpGate) first = 1 - first;
  if (order != GateOrder::kInterleaved) return e.SliceLast(both, first * n, n);
  if (!e.ok()) return -1;
  const std::vector<Dim>& dims = e.Type(both).dims;
  return e.Take(e.builder().Slice(both, {0, 0, first}, std::vector<Dim>(dims), {1, 1, 2}));
}

// A number of each slot, f32 [m, t, 1].
ValueId FactorsOf(Expander& e, ValueId weights) {
  std::vector<Dim> column = e.Type(weights).dims;
  column.push_back(Dim::Constant(1));
  return e.Take(e.builder().Reshape(e.Widen(weights), column));
}

}  // namespace

absl::string_view NameOf(GateOrder order) {
  return order == GateOrder::kGateUp   ? "gate_up"
         : order == GateOrder::kUpGate ? "up_gate"
                                       : "interleaved";
}

absl::StatusOr<GateOrder> ParseGateOrder(absl::string_view name) {
  for (const GateOrder order : {GateOrder::kGateUp, GateOrder::kUpGate, GateOrder::kInterleaved}) {
    if (name == NameOf(order)) return order;
  }
  return InvalidField("order", name, absl::StrCat("one of ", kGateOrderWords));
}

absl::StatusOr<ValueId> AddGroupedGatedFfn(ChainBuilder& b, const GroupedFfnOperands& in,
                                           const GroupedFfnOptions& options) {
  Expander e(b, "grouped_gated_ffn");
  CheckOptions(e, options);
  CheckFfn(e, in, options.layout);
  if (!e.ok()) return e.Finish(-1);
  const bool oi = options.layout == Layout::kOI;
  const DType dtype = e.Type(in.a).dtype;
  const int64_t n = e.Type(in.w2).dims[oi ? 2 : 1].value;
  const ValueId factors = FactorsOf(e, in.weights);
  const auto multiply = [&](absl::string_view what, ValueId a, ValueId w, ValueId bias,
                            bool weighted) {
    ValueId sums = e.TakeAs(what, b.GroupedMatmul(a, w, in.ids, oi));
    if (!e.ok()) return ValueId{-1};
    if (weighted) sums = e.Mul(sums, e.Spread(factors, sums));
    if (bias == kNoValue) return sums;
    return e.Add(sums, e.Widen(e.Take(b.Gather(bias, in.ids))));
  };
  const ValueId both = multiply("a times w1", in.a, in.w1, in.bias1, options.weight_on_input);
  const ValueId gate = Columns(e, both, 0, n, options.order);
  const ValueId up = Columns(e, both, 1, n, options.order);
  const ValueId c = e.Cast(GatedProduct(e, gate, up, options), dtype);
  if (!e.ok()) return e.Finish(-1);
  ValueId down = multiply("c times w2", c, in.w2, in.bias2, false);
  if (!e.ok()) return e.Finish(-1);
  if (!options.weight_on_input) down = e.Mul(down, e.Spread(factors, down));
  if (!e.ok()) return e.Finish(-1);
  const ValueId parts = e.Widen(e.Cast(down, dtype));
  if (!e.ok()) return e.Finish(-1);
  const ValueId sum = e.Take(b.Reduce(ReduceKind::kSum, parts, {1}));
  return e.Finish(e.Cast(sum, dtype));
}

absl::StatusOr<ValueId> AddScaledGroupedGatedFfn(ChainBuilder& b,
                                                 const ScaledGroupedFfnOperands& in,
                                                 const QuantizeSpec& quantize, Activation act,
                                                 GateOrder order) {
  Expander e(b, "scaled_grouped_gated_ffn");
  const ValueId both = e.TakeAs("a times w1", b.ScaledGroupedMatmul(in.a.codes, in.w1.codes, in.ids,
                                                                    in.a.scale, in.w1.scale));
  if (e.ok() && e.Type(both).dims.back().value % 2 != 0) {
    e.Fail(absl::StrCat("w1 is ", ToString(e.Type(in.w1.codes)), ", its columns must be even"));
  }
  if (!e.ok() || !e.CheckFloat("weights", in.weights)) return e.Finish(-1);
  if (e.Type(in.weights).dims != e.Type(in.ids).dims) {
    e.Fail(absl::StrCat("weights is ", ToString(e.Type(in.weights)), ", must have the dims ",
                        ToString(absl::MakeConstSpan(e.Type(in.ids).dims)), ": the dims of ids"));
  }
  const int64_t n = e.Type(both).dims.back().value / 2;
  const ValueId gate = Columns(e, both, 0, n, order), up = Columns(e, both, 1, n, order);
  const ValueId product = e.Mul(e.Activate(act, gate), up);
  if (!e.ok()) return e.Finish(-1);
  const absl::StatusOr<Scaled> c = AddQuantize(b, product, quantize);
  if (!c.ok()) {
    e.FailAs("the quantising of c", c.status());
    return e.Finish(-1);
  }
  const ValueId down = e.TakeAs(
      "c times w2", b.ScaledGroupedMatmul(c->codes, in.w2.codes, in.ids, c->scale, in.w2.scale));
  if (!e.ok()) return e.Finish(-1);
  const ValueId weighted = e.Mul(down, e.Spread(FactorsOf(e, in.weights), down));
  const ValueId parts = e.Widen(e.Cast(weighted, DType::kBF16));
  if (!e.ok()) return e.Finish(-1);
  return e.Finish(e.Take(b.Reduce(ReduceKind::kSum, parts, {1})));
}

}  // namespace sinter
