// Text kinds of products with matrices that ids name: mixtures of experts.
#include "src/base/status.h"
#include "src/chain/composites.h"
#include "src/chain/problem_kinds.h"
#include "src/chain/whole_chain.h"

namespace sinter {
namespace {

const FieldSpec kExperts{"experts", FieldType::kExtent, nullptr, "matrices, at most 1024"};
const FieldSpec kTop{"top", FieldType::kExtent, nullptr, "experts of a row, at most 32"};
const FieldSpec kLayout{"layout", FieldType::kName, kDefaultLayout.text,
                        "of weights: oi is [experts, out, in], io is [experts, in, out]", "oi io"};
const FieldSpec kDType{"dtype", FieldType::kName, "bf16",
                       "of every input but ids and weights, and of the output", "f32 f16 bf16"};
const FieldSpec kOrder{"order", FieldType::kName, "gate_up",
                       "of w1's columns: halves, or gate and up in turns", kGateOrderWords};
const FieldSpec kWeight{"weight", FieldType::kName, "output", "what weights multiply",
                        "output input"};
const FieldSpec kAlpha{"alpha", FieldType::kNumber, "1", "of act=silu: gate * sigmoid(alpha gate)"};
const FieldSpec kBeta{"beta", FieldType::kNumber, "0", "added to up"};
const FieldSpec kLimit{"limit", FieldType::kNumber, "0",
                       "largest gate, and largest and least up; 0: none"};

// Choices were checked: the fallbacks below are never used.
DType DTypeOf(const FieldValues& v) { return ParseDType(v.Name("dtype")).value_or(DType::kBF16); }
bool IsOI(const FieldValues& v) { return v.Name("layout") == NameOf(Layout::kOI); }

ValueId Matrices(WholeChain& c, const char* name, const FieldValues& v, int64_t out, int64_t in) {
  const int64_t experts = v.Extent("experts");
  return IsOI(v) ? c.Constant(name, {experts, out, in}) : c.Constant(name, {experts, in, out});
}

absl::StatusOr<Chain> MakeGroupedMatmul(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const ValueId a = c.Rows("a", v.Extent("k"));
  const ValueId w = Matrices(c, "w", v, v.Extent("n"), v.Extent("k"));
  const ValueId ids = c.Input("ids", {DType::kS32, {Dim::M(), Dim::Constant(v.Extent("top"))}});
  return c.Finish(c.b().GroupedMatmul(a, w, ids, IsOI(v)));
}

absl::StatusOr<Chain> MakeGroupedMatmulEnds(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const ValueId a = c.Rows("a", v.Extent("k"));
  const ValueId w = Matrices(c, "w", v, v.Extent("n"), v.Extent("k"));
  const ValueId ends = c.Input("ends", {DType::kS32, {Dim::Constant(v.Extent("experts"))}});
  return c.Finish(c.b().GroupedMatmulByEnds(a, w, ends, IsOI(v)));
}

absl::StatusOr<Chain> MakeGroupedGatedFfn(const FieldValues& v) {
  const int64_t n = v.Extent("n");
  if (n > kMaxExtent / 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("n is ", n, ", must be at most ", kMaxExtent / 2, ": w1 has 2 n columns"));
  }
  WholeChain c(DTypeOf(v));
  GroupedFfnOperands in;
  const std::vector<Dim> slots{Dim::M(), Dim::Constant(v.Extent("top"))};
  in.a = c.Rows("x", v.Extent("k"));
  in.ids = c.Input("ids", {DType::kS32, slots});
  in.weights = c.Input("weights", {DType::kF32, slots});
  in.w1 = Matrices(c, "w1", v, 2 * n, v.Extent("k"));
  in.bias1 = c.Constant("bias1", {v.Extent("experts"), 2 * n}, v.Flag("bias1"));
  in.w2 = Matrices(c, "w2", v, v.Extent("l"), n);
  in.bias2 = c.Constant("bias2", {v.Extent("experts"), v.Extent("l")}, v.Flag("bias2"));
  GroupedFfnOptions options;
  options.act = ParseActivation(v.Name("act")).value_or(Activation::kIdentity);
  options.layout = IsOI(v) ? Layout::kOI : Layout::kIO;
  options.order = ParseGateOrder(v.Name("order")).value_or(GateOrder::kGateUp);
  options.weight_on_input = v.Name("weight") == "input";
  options.alpha = v.Number("alpha");
  options.beta = v.Number("beta");
  options.limit = v.Number("limit");
  c.Output(c.Take(AddGroupedGatedFfn(c.b(), in, options)));
  return c.Finish();
}

}  // namespace

KindSpec GroupedMatmulKind() {
  return {"grouped_matmul",
          {kM, kExperts, kTop, kN, kK, kLayout, kDType},
          MakeGroupedMatmul,
          "w[ids[m, t]] a[m], zeros where there is no such matrix",
          "a[m,k] w*[experts,n,k] ids[m,top] of s32"};
}

KindSpec GroupedMatmulEndsKind() {
  return {"grouped_matmul_ends",
          {kM, kExperts, kN, kK, kLayout, kDType},
          MakeGroupedMatmulEnds,
          "w[e] a[m] with the first e of m < ends[e]; zeros behind the last end",
          "a[m,k] w*[experts,n,k] ends[experts] of s32"};
}

KindSpec GroupedGatedFfnKind() {
  return {"grouped_gated_ffn",
          {kM, kExperts, kTop, kN, kK, kL, kAct, kOrder, kLayout, kWeight, kDType, kBias1, kBias2,
           kAlpha, kBeta, kLimit},
          MakeGroupedGatedFfn,
          "the sum over t of weights[m, t] (w2[e] c + bias2[e]) with e = ids[m, t] and c = "
          "act(gate) * (up + beta) of w1[e] x[m] + bias1[e]",
          "x[m,k] ids[m,top] of s32, weights[m,top] of f32, w1*[experts,2 n,k], with bias1=1 "
          "bias1*[experts,2 n], w2*[experts,l,n], with bias2=1 bias2*[experts,l]"};
}

}  // namespace sinter
