#include "src/chain/problem_kinds.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "src/base/format.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/choices.h"
#include "src/chain/composites.h"
#include "src/chain/expander.h"

namespace sinter {
namespace {

FfnSpec FfnOf(const FieldValues& v, bool gated, int products) {
  FfnSpec spec;
  spec.gated = gated;
  spec.products = products;
  spec.n = v.Extent("n");
  spec.k = v.Extent("k");
  spec.act = ActOf(v);
  spec.layout = ParseLayout(v.Name("layout")).value_or(Layout::kOI);
  spec.dtype = DTypeOf(v);
  spec.bias1 = v.Flag("bias1");
  if (products == 2) {
    spec.l = v.Extent("l");
    spec.bias2 = v.Flag("bias2");
  }
  return spec;
}

template <bool kGated, int kProducts>
absl::StatusOr<Chain> MakeFfn(const FieldValues& v) {
  return MakeFfnChain(FfnOf(v, kGated, kProducts));
}

// A list with one item for each of `count` products, or one item for all of them.
absl::StatusOr<std::vector<std::string>> PerProduct(const FieldValues& v, const char* key,
                                                    size_t count) {
  std::vector<std::string> items = v.List(key);
  if (items.size() == 1) items.assign(count, items[0]);
  if (items.size() == count) return items;
  return Invalid(key, " has ", Counted(items.size(), "item"), ", n has ", count,
                 ": must be one, or as many");
}

absl::StatusOr<Chain> MakeProducts(const FieldValues& v) {
  const std::vector<std::string> n = v.List("n");
  SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> acts, PerProduct(v, "act", n.size()));
  SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> gated, PerProduct(v, "gated", n.size()));
  SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> bias, PerProduct(v, "bias", n.size()));
  ProductsSpec spec;
  spec.k = v.Extent("k");
  spec.layout = ParseLayout(v.Name("layout")).value_or(Layout::kOI);
  spec.dtype = DTypeOf(v);
  for (size_t i = 0; i < n.size(); ++i) {
    ProductSpec product;
    product.gated = gated[i] == "1";
    product.act = ParseActivation(acts[i]).value_or(Activation::kIdentity);
    product.bias = bias[i] == "1";
    if (!absl::SimpleAtoi(n[i], &product.n)) return Internal("unreachable");
    spec.products.push_back(product);
  }
  return MakeProductsChain(spec);
}

absl::StatusOr<Chain> MakeLayerNorm(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const int64_t cols = v.Extent("cols");
  const ValueId x = c.Rows("x", cols);
  const ValueId gamma = c.Constant("gamma", {cols}, v.Flag("affine"));
  const ValueId beta = c.Constant("beta", {cols}, v.Flag("affine"));
  return c.Finish(AddLayerNorm(c.b(), x, v.Number("eps"), gamma, beta));
}

absl::StatusOr<Chain> MakeRmsNorm(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const int64_t cols = v.Extent("cols");
  const ValueId x = c.Rows("x", cols);
  const ValueId gamma = c.Constant("gamma", {cols}, v.Flag("affine"));
  return c.Finish(AddRmsNorm(c.b(), x, v.Number("eps"), gamma));
}

// M batches of heads: rows of attention stay together.
absl::StatusOr<Chain> MakeAttention(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const Dim heads = Dim::Constant(v.Extent("heads")), head = Dim::Constant(v.Extent("dim"));
  const Dim rows = Dim::Constant(v.Extent("queries")), keys = Dim::Constant(v.Extent("keys"));
  const ValueId q = c.Input("q", {DTypeOf(v), {Dim::M(), heads, rows, head}});
  const ValueId k = c.Input("k", {DTypeOf(v), {Dim::M(), heads, keys, head}});
  const ValueId value = c.Input("v", {DTypeOf(v), {Dim::M(), heads, keys, head}});
  AttentionOptions options;
  options.causal = v.Name("mask") == "causal";
  if (v.Name("mask") == "keys") {
    options.mask =
        c.Input("mask", {DType::kPred, {Dim::M(), Dim::Constant(1), Dim::Constant(1), keys}});
  } else if (v.Name("mask") == "bias") {
    options.bias = c.Input("bias", {DTypeOf(v), {heads, rows, keys}});
  }
  return c.Finish(AddAttention(c.b(), q, k, value, options));
}

absl::StatusOr<Chain> MakeSoftmax(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const ValueId x = c.Rows("x", v.Extent("cols"));
  return c.Finish(AddSoftmax(c.b(), x, -1, v.Number("scale")));
}

absl::StatusOr<Chain> MakeMaskedSoftmax(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const int64_t cols = v.Extent("cols");
  const ValueId x = c.Rows("x", cols);
  const ValueId mask = v.Name("mask") == "full"
                           ? c.Rows("mask", cols)
                           : c.Input("mask", {DTypeOf(v), {Dim::Constant(cols)}});
  return c.Finish(AddSoftmax(c.b(), x, -1, v.Number("scale"), mask));
}

absl::StatusOr<Chain> MakeBiasGeluResidualLayerNorm(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const int64_t cols = v.Extent("cols");
  const ValueId x = c.Rows("x", cols);
  const ValueId bias = c.Constant("b", {cols});
  const ValueId r = c.Rows("r", cols);
  const ValueId gamma = c.Constant("gamma", {cols});
  const ValueId beta = c.Constant("beta", {cols});
  const ValueId wide = c.Widen(x);
  const ValueId sum = c.Binary(BinaryKind::kAdd, wide, c.Spread(bias, x));
  const bool tanh = v.Name("gelu") == "tanh";
  const ValueId gelu = c.Take(tanh ? AddGeluTanh(c.b(), sum) : AddGeluErf(c.b(), sum));
  const ValueId h = c.Binary(BinaryKind::kAdd, gelu, r);
  return c.Finish(AddLayerNorm(c.b(), h, v.Number("eps"), gamma, beta));
}

absl::StatusOr<Chain> MakeResidualRmsNorm(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const int64_t cols = v.Extent("cols");
  const ValueId x = c.Rows("x", cols);
  const ValueId r = c.Rows("r", cols);
  const ValueId gamma = c.Constant("gamma", {cols});
  const ValueId h = c.Binary(BinaryKind::kAdd, c.Widen(x), r);
  if (v.Name("outputs") == "2") c.RoundedOutput(h);
  return c.Finish(AddRmsNorm(c.b(), h, v.Number("eps"), gamma));
}

absl::StatusOr<Chain> MakeGelu(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const ValueId x = c.Rows("x", v.Extent("cols"));
  return c.Finish(v.Name("form") == "tanh" ? AddGeluTanh(c.b(), x) : AddGeluErf(c.b(), x));
}

absl::StatusOr<Chain> MakeClamp(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const ValueId x = c.Rows("x", v.Extent("cols"));
  return c.Finish(AddClamp(c.b(), x, v.Number("min"), v.Number("max")));
}

// Ids are s32.
absl::StatusOr<Chain> MakeTopK(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  c.Output(c.Take(c.b().TopK(c.Rows("x", v.Extent("cols")), v.Extent("k"))));
  return c.Finish();
}

absl::StatusOr<Chain> MakeArgmax(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  c.Output(c.Take(AddArgmax(c.b(), c.Rows("x", v.Extent("cols")))));
  return c.Finish();
}

absl::StatusOr<Chain> MakeCumsum(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  return c.Finish(c.b().Scan(ReduceKind::kSum, c.Rows("x", v.Extent("cols"))));
}

absl::StatusOr<Chain> MakeDropout(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const double p = v.Number("p");
  if (!(p >= 0 && p < 1)) return InvalidField("p", v.Name("p"), "in [0, 1)");
  const ValueId x = c.Rows("x", v.Extent("cols"));
  const ValueId seed = c.Input("seed", {DType::kS64, {}});
  const ValueId offset = c.Input("offset", {DType::kS64, {}});
  const ValueId random =
      c.Take(c.b().Random({Dim::M(), Dim::Constant(v.Extent("cols"))}, seed, offset));
  const ValueId bound = c.Take(c.b().Scalar(p, DType::kF32));
  const ValueId kept = c.Take(c.b().Compare(CompareKind::kGt, random, bound));
  const ValueId wide = c.Widen(x);
  const ValueId factor = c.Take(c.b().Scalar(1 / (1 - p), DType::kF32));
  const ValueId scaled = c.Binary(BinaryKind::kMul, wide, factor);
  const ValueId zero = c.Take(c.b().Scalar(0, DType::kF32));
  return c.Finish(c.b().Select(kept, scaled, zero));
}

template <absl::StatusOr<ValueId> (*kAdd)(ChainBuilder&, ValueId)>
absl::StatusOr<Chain> MakeUnary(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  return c.Finish(kAdd(c.b(), c.Rows("x", v.Extent("cols"))));
}

absl::StatusOr<Chain> MakeSwiglu(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const int64_t cols = v.Extent("cols");
  const ValueId x = c.Rows("x", 2 * cols);
  const ValueId gate = c.Take(c.b().Slice(x, {0, 0}, {Dim::M(), Dim::Constant(cols)}));
  const ValueId up = c.Take(c.b().Slice(x, {0, cols}, {Dim::M(), Dim::Constant(2 * cols)}));
  return c.Finish(AddSwiglu(c.b(), gate, up));
}

absl::StatusOr<Chain> MakeRope(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const Dim heads = Dim::Constant(v.Extent("heads")), size = Dim::Constant(v.Extent("dim"));
  const Dim half = Dim::Constant(std::max<int64_t>(1, size.value / 2));
  const TensorType angles{DType::kF32, {Dim::M(), half}};
  const ValueId x = c.Input("x", {DTypeOf(v), {Dim::M(), heads, size}});
  const ValueId cos = c.Input("cos", angles);
  const ValueId sin = c.Input("sin", angles);
  const std::vector<Dim> per_row = {Dim::M(), Dim::Constant(1), half};
  const ValueId row_cos = c.Take(c.b().Reshape(cos, per_row));
  const ValueId row_sin = c.Take(c.b().Reshape(sin, per_row));
  return c.Finish(AddRope(c.b(), x, row_cos, row_sin));
}

absl::StatusOr<Chain> MakeLstmCell(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const int64_t hidden = v.Extent("hidden");
  const ValueId gates = c.Rows("gates", 4 * hidden);
  const ValueId cell = c.Rows("c", hidden);
  const absl::StatusOr<LstmResult> result = AddLstmCell(c.b(), gates, cell);
  if (!result.ok()) return c.Finish(result.status());
  c.RoundedOutput(result->h);
  return c.Finish(result->c);
}

absl::StatusOr<Chain> MakeGruCell(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const int64_t hidden = v.Extent("hidden");
  const ValueId xg = c.Rows("xg", 3 * hidden);
  const ValueId hg = c.Rows("hg", 3 * hidden);
  const ValueId h = c.Rows("h", hidden);
  return c.Finish(AddGruCell(c.b(), xg, hg, h));
}

// A table, constant or written to, and the ids of its rows.
std::pair<ValueId, ValueId> TableAndIds(WholeChain& c, const FieldValues& v, bool constant) {
  const Dim table = Dim::Constant(v.Extent("table")), cols = Dim::Constant(v.Extent("cols"));
  const DType ids = ParseDType(v.Name("ids")).value_or(DType::kS32);
  const ValueId x = c.Input("x", {DTypeOf(v), {table, cols}}, constant);
  return {x, c.Input("ids", {ids, {Dim::M()}})};
}

absl::StatusOr<Chain> MakeGather(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const auto [x, ids] = TableAndIds(c, v, true);
  c.Output(c.Take(c.b().Gather(x, ids)));
  return c.Finish();
}

absl::StatusOr<Chain> MakeScatter(const FieldValues& v) {
  WholeChain c(DTypeOf(v));
  const auto [x, ids] = TableAndIds(c, v, false);
  const ValueId r = c.Rows("r", v.Extent("cols"));
  OutputOptions options;
  options.alias = x;
  c.Output(c.Take(c.b().Scatter(x, ids, r)), options);
  return c.Finish();
}

const FieldSpec kTable{"table", FieldType::kExtent, nullptr, "rows of the table"};
const FieldSpec kIds{"ids", FieldType::kName, "s32", "type of the ids", "s32 s64"};
const FieldSpec kHidden{"hidden", FieldType::kExtent, nullptr, "width of the state"};
const FieldSpec kHeads{"heads", FieldType::kExtent, nullptr, "heads of a row"};
const FieldSpec kDim{"dim", FieldType::kExtent, nullptr, "width of a head, even"};
const FieldSpec kLayout{"layout", FieldType::kName, kDefaultLayout.text,
                        "of weights: oi is [out, in] (nn.Linear), io is [in, out]", "oi io"};
const FieldSpec kWidths{"n", FieldType::kExtents, nullptr,
                        "columns of each product, one item a product"};
const FieldSpec kActList{"act", FieldType::kNames, kDefaultActivation.text,
                         "activation, an item a product or one for all", kActivationWords};
const FieldSpec kGatedList{"gated", FieldType::kFlags, "0",
                           "whether gated, an item a product or one for all"};
const FieldSpec kBiasList{"bias", FieldType::kFlags, "0",
                          "whether biased, an item a product or one for all"};
const FieldSpec kAffine{"affine", FieldType::kFlag, "1", "whether weights follow"};
const FieldSpec kLayerEps{"eps", FieldType::kNumber, kDefaultLayerNormEps.text,
                          "added to the variance"};
const FieldSpec kScale{"scale", FieldType::kNumber, kDefaultSoftmaxScale.text, "factor of x"};
const FieldSpec kMin{"min", FieldType::kNumber, nullptr, "smallest result"};
const FieldSpec kMax{"max", FieldType::kNumber, nullptr, "largest result"};
const FieldSpec kP{"p", FieldType::kNumber, nullptr, "share of elements that become 0, below 1"};
const FieldSpec kMask{"mask", FieldType::kName, "full", "full: [rows, cols], row: [cols]",
                      "full row"};
const FieldSpec kQueries{"queries", FieldType::kExtent, nullptr, "rows of q"};
const FieldSpec kKeys{"keys", FieldType::kExtent, nullptr, "rows of k and v"};
const FieldSpec kHeadDim{"dim", FieldType::kExtent, nullptr, "width of a head"};
const FieldSpec kBatchHeads{"heads", FieldType::kExtent, nullptr, "heads of a batch"};
const FieldSpec kScores{"mask", FieldType::kName, "none",
                        "keys: those seen; bias: numbers added; causal: none behind the row",
                        "none keys bias causal"};
const FieldSpec kGelu{"gelu", FieldType::kName, "tanh", "form of GELU", "tanh erf"};
const FieldSpec kForm{"form", FieldType::kName, "tanh", "form of GELU", "tanh erf"};
const FieldSpec kOutputs{"outputs", FieldType::kName, "2", "2: the sum x + r is given out too",
                         "1 2"};

}  // namespace

int64_t FieldValues::Extent(const char* key) const {
  int64_t value = 0;
  return absl::SimpleAtoi(values_.at(key), &value) ? value : 0;
}

double FieldValues::Number(const char* key) const {
  double value = 0;
  return absl::SimpleAtod(values_.at(key), &value) ? value : 0;
}

std::vector<std::string> FieldValues::List(const char* key) const {
  return absl::StrSplit(values_.at(key), ',');
}

std::vector<KindSpec> KindSpecs() {
  std::vector<KindSpec> kinds = {
      {"argmax",
       {kRows, kCols, kDType},
       MakeArgmax,
       "where the largest of the columns is, s32",
       "x[rows,cols]"},
      {"attention",
       {kRows, kBatchHeads, kQueries, kKeys, kHeadDim, kScores, kDType},
       MakeAttention,
       "softmax(q k' / sqrt(dim)) v for each batch and head",
       "q[rows,heads,queries,dim] k[rows,heads,keys,dim] v[rows,heads,keys,dim], "
       "mask[rows,1,1,keys] "
       "or bias[heads,queries,keys]"},
      {"bias_gelu_residual_layernorm",
       {kRows, kCols, kGelu, kLayerEps, kDType},
       MakeBiasGeluResidualLayerNorm,
       "layer norm of gelu(x + b) + r",
       "x[rows,cols] b*[cols] r[rows,cols] gamma*[cols] beta*[cols]"},
      {"clamp",
       {kRows, kCols, kMin, kMax, kDType},
       MakeClamp,
       "min(max(x, min), max)",
       "x[rows,cols]"},
      {"cumsum",
       {kRows, kCols, kDType},
       MakeCumsum,
       "sums of the columns up to each",
       "x[rows,cols]"},
      {"dropout",
       {kRows, kCols, kP, kDType},
       MakeDropout,
       "x / (1 - p) where a random number is above p, else 0",
       "x[rows,cols] seed[] offset[], the last two s64"},
      {"gate_up",
       {kM, kN, kK, kAct, kLayout, kDType, kBias1},
       MakeFfn<true, 1>,
       "act(a w_gate + bias_gate) * (a w_up + bias_up)",
       "a[m,k] w_gate*[n,k] w_up*[n,k], with bias1=1 bias_gate*[n] bias_up*[n]"},
      {"gated_ffn",
       {kM, kN, kK, kL, kAct, kLayout, kDType, kBias1, kBias2},
       MakeFfn<true, 2>,
       "c w_down + bias2 with c = act(a w_gate + bias_gate) * (a w_up + bias_up)",
       "a[m,k] w_gate*[n,k] w_up*[n,k], with bias1=1 bias_gate*[n] bias_up*[n], w_down*[l,n], with "
       "bias2=1 "
       "bias2*[l]"},
      {"gather",
       {kRows, kTable, kCols, kIds, kDType},
       MakeGather,
       "rows of x by ids, zeros where there is no such row",
       "x*[table,cols] ids[rows]"},
      {"gelu", {kRows, kCols, kForm, kDType}, MakeGelu, "gelu(x)", "x[rows,cols]"},
      {"gemm_chain",
       {kM, kN, kK, kL, kAct, kLayout, kDType, kBias1, kBias2},
       MakeFfn<false, 2>,
       "c w2 + bias2 with c = act(a w1 + bias1)",
       "a[m,k] w1*[n,k], with bias1=1 bias1*[n], w2*[l,n], with bias2=1 bias2*[l]"},
      {"gru_cell",
       {kRows, kHidden, kDType},
       MakeGruCell,
       "(1 - z) n + z h with r = s(x0 + h0), z = s(x1 + h1), n = tanh(x2 + r h2)",
       "xg[rows,3 hidden] hg[rows,3 hidden] h[rows,hidden]"},
      {"layernorm",
       {kRows, kCols, kLayerEps, kAffine, kDType},
       MakeLayerNorm,
       "(x - mean) / sqrt(variance + eps) * gamma + beta over the columns",
       "x[rows,cols], with affine gamma*[cols] beta*[cols]"},
      {"lstm_cell",
       {kRows, kHidden, kDType},
       MakeLstmCell,
       "h' = s(o) tanh(c') and c' = s(f) c + s(i) tanh(j), slices i f j o",
       "gates[rows,4 hidden] c[rows,hidden]"},
      {"masked_softmax",
       {kRows, kCols, kScale, kMask, kDType},
       MakeMaskedSoftmax,
       "softmax(scale x + mask) over the columns",
       "x[rows,cols], mask[rows,cols] or mask[cols]"},
      {"matmul",
       {kM, kN, kK, kOptionalAct, kLayout, kDType, kBias1},
       MakeFfn<false, 1>,
       "act(a w1 + bias1)",
       "a[m,k] w1*[n,k], with bias1=1 bias1*[n]"},
      {"products",
       {kM, kK, kWidths, kActList, kGatedList, kBiasList, kLayout, kDType},
       MakeProducts,
       "a sequence of products, each act(X w + bias) or act(X w_gate + bias_gate) * (X w_up + "
       "bias_up) of the one "
       "before",
       "a[m,k], then of each product w* or w_gate* w_up*, and bias*[n] or bias_gate*[n] "
       "bias_up*[n]"},
      {"residual_rmsnorm",
       {kRows, kCols, kRmsEps, kOutputs, kDType},
       MakeResidualRmsNorm,
       "RMS norm of x + r",
       "x[rows,cols] r[rows,cols] gamma*[cols]"},
      {"rmsnorm",
       {kRows, kCols, kRmsEps, kAffine, kDType},
       MakeRmsNorm,
       "x / sqrt(mean(x x) + eps) * gamma over the columns",
       "x[rows,cols], with affine gamma*[cols]"},
      {"rope",
       {kRows, kHeads, kDim, kDType},
       MakeRope,
       "rotary embedding: (t1 cos - t2 sin, t2 cos + t1 sin), t1 and t2 the halves of a head",
       "x[rows,heads,dim] cos[rows,dim/2] sin[rows,dim/2], the last two f32"},
      {"scatter",
       {kRows, kTable, kCols, kIds, kDType},
       MakeScatter,
       "x with rows of r written where ids say, of equal ids the last one; may share x's buffer",
       "x[table,cols] ids[rows] r[rows,cols]"},
      {"silu", {kRows, kCols, kDType}, MakeUnary<AddSilu>, "x sigmoid(x)", "x[rows,cols]"},
      {"softmax",
       {kRows, kCols, kScale, kDType},
       MakeSoftmax,
       "softmax(scale x) over the columns",
       "x[rows,cols]"},
      {"softplus",
       {kRows, kCols, kDType},
       MakeUnary<AddSoftplus>,
       "log(1 + exp(x))",
       "x[rows,cols]"},
      {"swiglu",
       {kRows, kCols, kDType},
       MakeSwiglu,
       "silu(left half) * right half",
       "x[rows,2 cols]"},
      {"top_k",
       {kRows, kCols, kTaken, kDType},
       MakeTopK,
       "where the k largest of the columns are, falling, s32",
       "x[rows,cols]"},
  };
  for (const std::vector<KindSpec>& more : {ConvKinds(), FourBitKinds(), GroupedKinds(),
                                            NextTokenKinds(), RanksKinds(), ScaledKinds()}) {
    kinds.insert(kinds.end(), more.begin(), more.end());
  }
  std::sort(kinds.begin(), kinds.end(), [](const KindSpec& a, const KindSpec& b) {
    return absl::string_view(a.name) < absl::string_view(b.name);
  });
  return kinds;
}

}  // namespace sinter
