// Text kinds of products with matrices that ids name: mixtures of experts.
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/composites.h"
#include "src/chain/expander.h"
#include "src/chain/problem_kinds.h"

namespace sinter {
namespace {

const FieldSpec kGroupedLayout{"layout", FieldType::kName, kDefaultLayout.text,
                               "of weights: oi is [experts, out, in], io is [experts, in, out]",
                               "oi io"};
const FieldSpec kTensors{"dtype", FieldType::kName, "bf16",
                         "of every input but ids and weights, and of the output", "f32 f16 bf16"};

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
  WholeChain c(DTypeOf(v));
  return FinishGroupedFfn(c, v, IsOI(v) ? Layout::kOI : Layout::kIO,
                          [&](const char* name, int64_t columns, int64_t k) {
                            return Matrices(c, name, v, columns, k);
                          });
}

}  // namespace

absl::StatusOr<Chain> FinishGroupedFfn(
    WholeChain& c, const FieldValues& v, Layout layout,
    absl::FunctionRef<ValueId(const char* name, int64_t columns, int64_t k)> weights) {
  const int64_t n = v.Extent("n");
  if (n > kMaxExtent / 2) {
    return InvalidField("n", n, absl::StrCat("at most ", kMaxExtent / 2), ": w1 has 2 n columns");
  }
  GroupedFfnOperands in;
  const std::vector<Dim> slots{Dim::M(), Dim::Constant(v.Extent("top"))};
  in.a = c.Rows("x", v.Extent("k"));
  in.ids = c.Input("ids", {DType::kS32, slots});
  in.weights = c.Input("weights", {DType::kF32, slots});
  in.w1 = weights("w1", 2 * n, v.Extent("k"));
  in.bias1 = c.Constant("bias1", {v.Extent("experts"), 2 * n}, v.Flag("bias1"));
  in.w2 = weights("w2", v.Extent("l"), n);
  in.bias2 = c.Constant("bias2", {v.Extent("experts"), v.Extent("l")}, v.Flag("bias2"));
  GroupedFfnOptions options;
  options.act = ActOf(v);
  options.layout = layout;
  options.order = ParseGateOrder(v.Name("order")).value_or(GateOrder::kGateUp);
  options.weight_on_input = v.Name("weight") == "input";
  options.alpha = v.Number("alpha");
  options.beta = v.Number("beta");
  options.limit = v.Number("limit");
  c.Output(c.Take(AddGroupedGatedFfn(c.b(), in, options)));
  return c.Finish();
}

std::vector<KindSpec> GroupedKinds() {
  return {
      {"grouped_matmul",
       {kM, kExperts, kTop, kN, kK, kGroupedLayout, kTensors},
       MakeGroupedMatmul,
       "w[ids[m, t]] a[m], zeros where there is no such matrix",
       "a[m,k] w*[experts,n,k] ids[m,top] of s32"},
      {"grouped_matmul_ends",
       {kM, kExperts, kN, kK, kGroupedLayout, kTensors},
       MakeGroupedMatmulEnds,
       "w[e] a[m] with the first e of m < ends[e]; zeros behind the last end",
       "a[m,k] w*[experts,n,k] ends[experts] of s32"},
      {"grouped_gated_ffn",
       {kM, kExperts, kTop, kN, kK, kL, kAct, kOrder, kGroupedLayout, kWeight, kTensors, kBias1,
        kBias2, kAlpha, kBeta, kLimit},
       MakeGroupedGatedFfn,
       "the sum over t of weights[m, t] (w2[e] c + bias2[e]) with e = ids[m, t] and c = "
       "act(gate) * (up + beta) of w1[e] x[m] + bias1[e]",
       "x[m,k] ids[m,top] of s32, weights[m,top] of f32, w1*[experts,2 n,k], with bias1=1 "
       "bias1*[experts,2 n], w2*[experts,l,n], with bias2=1 bias2*[experts,l]"},
  };
}

// Text kinds of chains that are split over the GPUs of a group.

namespace {

const FieldSpec kRanks{"ranks", FieldType::kExtent, nullptr, "GPUs of the group, at most 8"};
const FieldSpec kResidual{"residual", FieldType::kFlag, "0", "whether r is added to the sum"};
const FieldSpec kResidualOfProduct{"residual", FieldType::kFlag, "1",
                                   "whether r is added to the sum"};
const FieldSpec kNorm{"norm", FieldType::kName, "rms", "of what the sum gives", "none rms"};
const FieldSpec kRanksLayout{"layout", FieldType::kName, kDefaultLayout.text,
                             "of the weights: oi is [out, in], io is [in, out]", "oi io"};
const FieldSpec kMessages{"dtype", FieldType::kName, "bf16", "of inputs, messages and outputs",
                          "f32 f16 bf16"};

const FieldSpec kAlong{"along", FieldType::kName, "cols", "what each rank has a part of",
                       "cols rows"};

// x summed over ranks, and r of `columns` columns where the chain has one; rounded.
ValueId SumWithResidual(WholeChain& c, const FieldValues& v, ValueId x, ValueId r) {
  const ValueId sum = c.Take(c.b().AllReduce(x, static_cast<int32_t>(v.Extent("ranks"))));
  if (r == kNoValue) return sum;
  return c.Take(c.b().Cast(c.Binary(BinaryKind::kAdd, c.Widen(sum), r), DTypeOf(v)));
}

absl::StatusOr<Chain> MakeAllReduce(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const ValueId x = c.Rows("x", v.Extent("cols"));
  const ValueId r = v.Flag("residual") ? c.Rows("r", v.Extent("cols")) : kNoValue;
  c.Output(SumWithResidual(c, v, x, r));
  return c.Finish();
}

absl::StatusOr<Chain> MakeRowParallel(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const int64_t n = v.Extent("n"), k = v.Extent("k");
  const bool oi = v.Name("layout") == NameOf(Layout::kOI), rms = v.Name("norm") == "rms";
  const ValueId a = c.Rows("a", k);
  const ValueId w = c.Constant("w1", oi ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n});
  const ValueId r = v.Flag("residual") ? c.Rows("r", n) : kNoValue;
  const ValueId gamma = c.Constant("gamma", {n}, rms);
  const ValueId product = c.Take(c.b().Matmul(a, w, false, oi));
  const ValueId h = SumWithResidual(c, v, c.Take(c.b().Cast(product, DTypeOf(v))), r);
  c.Output(h);
  if (!rms) return c.Finish();
  return c.Finish(AddRmsNorm(c.b(), h, v.Number("eps"), gamma));
}

// M is one number on all ranks: an axis in front of the ranks' rows distinguishes them.
absl::StatusOr<Chain> MakeAllGather(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const auto ranks = static_cast<int32_t>(v.Extent("ranks"));
  const Dim cols = Dim::Constant(v.Extent("cols"));
  const bool of_rows = v.Name("along") == "rows";
  ValueId x = c.Rows("x", cols.value);
  if (of_rows) x = c.Take(c.b().Reshape(x, {Dim::Constant(1), Dim::M(), cols}));
  c.Output(c.Take(c.b().AllGather(x, of_rows ? 0 : 1, ranks)));
  return c.Finish();
}

absl::StatusOr<Chain> MakeReduceScatter(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const auto ranks = static_cast<int32_t>(v.Extent("ranks"));
  const Dim cols = Dim::Constant(v.Extent("cols"));
  if (v.Name("along") == "cols") {
    c.Output(c.Take(c.b().ReduceScatter(c.Rows("x", cols.value), 1, ranks)));
    return c.Finish();
  }
  const ValueId x = c.Input("x", {DTypeOf(v), {Dim::Constant(ranks), Dim::M(), cols}});
  const ValueId part = c.Take(c.b().ReduceScatter(x, 0, ranks));
  c.Output(c.Take(c.b().Reshape(part, {Dim::M(), cols})));
  return c.Finish();
}

}  // namespace

std::vector<KindSpec> RanksKinds() {
  return {
      {"all_reduce",
       {kRows, kCols, kRanks, kResidual, kMessages},
       MakeAllReduce,
       "the sum of x over the GPUs of a group, and r with residual=1",
       "x[rows,cols], with residual=1 r[rows,cols]"},
      {"all_gather",
       {kRows, kCols, kRanks, kAlong, kMessages},
       MakeAllGather,
       "what the GPUs of the group have of x: [rows,ranks*cols], of rows [ranks,rows,cols]",
       "x[rows,cols]"},
      {"reduce_scatter",
       {kRows, kCols, kRanks, kAlong, kMessages},
       MakeReduceScatter,
       "this GPU's part of the sum of x over the group: [rows,cols/ranks], of rows [rows,cols]",
       "x[rows,cols], with along=rows x[ranks,rows,cols]"},
      {"row_parallel",
       {kM, kN, kK, kRanks, kResidualOfProduct, kNorm, kRmsEps, kRanksLayout, kMessages},
       MakeRowParallel,
       "h, the sum of a w1 over the GPUs of a group and r, then the RMS norm of h",
       "a[m,k] w1*[n,k], with residual=1 r[m,n], with norm=rms gamma*[n]"},
  };
}

}  // namespace sinter
