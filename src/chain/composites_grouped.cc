// The gated FFN of a mixture of experts.
#include "src/chain/composites.h"
#include "src/chain/expander.h"

namespace sinter {
namespace {

// [experts, rows, columns] by which a product's rows are multiplied, or why `w` is none.
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
                               ": those of ids"));
  }
  for (const auto& [field, w] : {std::pair("w1", in.w1), std::pair("w2", in.w2)}) {
    if (e.Type(w).dtype == e.Type(in.a).dtype) continue;
    return e.Fail(absl::StrCat(field, " is ", ToString(e.Type(w)), ", must be of a's dtype ",
                               NameOf(e.Type(in.a).dtype)));
  }
  const std::vector<Dim>&w1 = e.Type(in.w1).dims, &w2 = e.Type(in.w2).dims;
  if (w1[0] != w2[0]) {
    return e.Fail(absl::StrCat("experts of w2 are ", ToString(w2[0]), ", of w1 ", ToString(w1[0]),
                               ": must be equal"));
  }
  const Dim both = w1[layout == Layout::kOI ? 1 : 2], n = w2[layout == Layout::kOI ? 2 : 1];
  if (both.symbolic || n.symbolic || both.value != 2 * n.value) {
    e.Fail(absl::StrCat("w1 is ", ToString(e.Type(in.w1)), ", w2 ", ToString(e.Type(in.w2)),
                        ": w1 must have twice the ", ToString(n), " columns that w2 takes"));
  }
}

}  // namespace

absl::string_view NameOf(GateOrder order) {
  return order == GateOrder::kGateUp ? "gate_up" : "up_gate";
}

absl::StatusOr<GateOrder> ParseGateOrder(absl::string_view name) {
  if (name == NameOf(GateOrder::kGateUp)) return GateOrder::kGateUp;
  if (name == NameOf(GateOrder::kUpGate)) return GateOrder::kUpGate;
  return absl::InvalidArgumentError(
      absl::StrCat("order is ", name, ", must be one of ", kGateOrderWords));
}

absl::StatusOr<ValueId> AddGroupedGatedFfn(ChainBuilder& b, const GroupedFfnOperands& in,
                                           Activation act, Layout layout, GateOrder order) {
  Expander e(b, "grouped_gated_ffn");
  if (layout != Layout::kOI && layout != Layout::kIO) {
    e.Fail(absl::StrCat("layout is ", static_cast<int>(layout), ", must be oi or io"));
  }
  CheckFfn(e, in, layout);
  if (!e.ok()) return e.Finish(-1);
  const bool oi = layout == Layout::kOI;
  const DType dtype = e.Type(in.a).dtype;
  const int64_t n = e.Type(in.w2).dims[oi ? 2 : 1].value;
  const ValueId both = e.TakeAs("a times w1", b.GroupedMatmul(in.a, in.w1, in.ids, oi));
  const ValueId first = e.SliceLast(both, 0, n), second = e.SliceLast(both, n, n);
  const bool gate_first = order == GateOrder::kGateUp;
  const ValueId gate = e.Activate(act, gate_first ? first : second);
  const ValueId product = e.Mul(gate, gate_first ? second : first);
  const ValueId c = e.Cast(product, dtype);
  if (!e.ok()) return e.Finish(-1);
  const ValueId down = e.TakeAs("c times w2", b.GroupedMatmul(c, in.w2, in.ids, oi));
  if (!e.ok()) return e.Finish(-1);
  std::vector<Dim> column = e.Type(in.weights).dims;
  column.push_back(Dim::Constant(1));
  const ValueId factors = e.Take(b.Reshape(e.Widen(in.weights), column));
  const ValueId weighted = e.Mul(down, e.Spread(factors, down));
  if (!e.ok()) return e.Finish(-1);
  const ValueId sum = e.Take(b.Reduce(ReduceKind::kSum, weighted, {1}));
  return e.Finish(e.Cast(sum, dtype));
}

}  // namespace sinter
