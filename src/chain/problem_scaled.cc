#include <utility>

#include "src/base/numbers.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/chain/choices.h"
#include "src/chain/composites.h"
#include "src/chain/expander.h"
#include "src/chain/infer.h"
#include "src/chain/problem_kinds.h"

namespace sinter {
namespace {

Granularity GranularityOf(const FieldValues& v, const char* key) {
  return ParseGranularity(v.Name(key)).value_or(Granularity::kRow);
}

Accumulate AccumulateOf(const FieldValues& v) {
  return ParseAccumulate(v.Name("accumulate")).value_or(Accumulate::kPromoted);
}

// A chain of codes and scales; inputs are added in the documented order.
class ScaledChain : public WholeChain {
 public:
  explicit ScaledChain(const FieldValues& v) : WholeChain(DTypeOf(v)), v_(v) {}

  // A quantiser with its static scale, where it is static.
  QuantizeSpec Quantizer(const char* granularity) {
    QuantizeSpec spec;
    spec.granularity = GranularityOf(v_, granularity);
    spec.codes = DTypeOf(v_, "codes");
    spec.eps = v_.Number("quantize_eps");
    spec.upper_bound = v_.Number("upper_bound");
    spec.ue8m0 = v_.Flag("ue8m0");
    spec.scale = Constant("scale", {}, spec.granularity == Granularity::kStatic, DType::kF32);
    return spec;
  }
  // Codes [rows, columns] and their scale.
  Scaled Codes(const std::string& name, Dim rows, int64_t columns) {
    if (GranularityOf(v_, "scales") == Granularity::kGroup && columns % kScaleBlock != 0) {
      Fail(InvalidFields(absl::StrCat("columns of ", name), columns,
                         absl::StrCat("a multiple of ", kScaleBlock, " for scales=group")));
      return {};
    }
    const bool weights = !rows.symbolic;
    const ValueId codes =
        Input(name, {DTypeOf(v_, "codes"), {rows, Dim::Constant(columns)}}, weights);
    return {codes, Input("scale_" + name, {DType::kF32, ScaleDims(rows, columns)}, weights)};
  }
  // The same of matrices [experts, rows, columns].
  Scaled Matrices(const std::string& name, int64_t experts, int64_t rows, int64_t columns) {
    const Granularity scales = GranularityOf(v_, "scales");
    const auto dims = [](int64_t a, int64_t b, int64_t c) {
      return std::vector<Dim>{Dim::Constant(a), Dim::Constant(b), Dim::Constant(c)};
    };
    const ValueId codes = Input(name, {DType::kE4M3, dims(experts, rows, columns)}, true);
    const std::vector<Dim> scale =
        scales == Granularity::kTensor ? dims(experts, 1, 1)
        : scales == Granularity::kRow
            ? dims(experts, rows, 1)
            : dims(experts, CeilDiv(rows, kScaleBlock), columns / kScaleBlock);
    return {codes, Input("scale_" + name, {DType::kF32, scale}, true)};
  }
  // The codes of x, and the scale unless it was given.
  absl::StatusOr<Chain> FinishQuantized(ValueId x, const QuantizeSpec& spec) {
    const absl::StatusOr<Scaled> result = AddQuantize(b(), x, spec);
    if (!result.ok()) return Finish(result.status());
    Output(result->codes);
    if (spec.scale == kNoValue) Output(result->scale);
    return Finish();
  }

 private:
  std::vector<Dim> ScaleDims(Dim rows, int64_t columns) const {
    const Granularity scales = GranularityOf(v_, "scales");
    if (scales == Granularity::kTensor) return {};
    if (scales == Granularity::kRow) return {rows, Dim::Constant(1)};
    const Dim blocks = rows.symbolic ? rows : Dim::Constant(CeilDiv(rows.value, kScaleBlock));
    return {blocks, Dim::Constant(columns / kScaleBlock)};
  }

  const FieldValues& v_;
};

absl::StatusOr<Chain> MakeQuantize(const FieldValues& v) {
  ScaledChain c(v);
  const ValueId x = c.Rows("x", v.Extent("cols"));
  return c.FinishQuantized(x, c.Quantizer("granularity"));
}

absl::StatusOr<Chain> MakeRmsNormQuantize(const FieldValues& v) {
  ScaledChain c(v);
  const int64_t cols = v.Extent("cols");
  const ValueId x = c.Rows("x", cols);
  const ValueId gamma = c.Constant("gamma", {cols});
  const QuantizeSpec spec = c.Quantizer("granularity");
  const ValueId normed = c.Take(AddRmsNorm(c.b(), x, v.Number("eps"), gamma));
  return c.FinishQuantized(normed, spec);
}

absl::StatusOr<Chain> MakeScaledMatmul(const FieldValues& v) {
  ScaledChain c(v);
  const int64_t n = v.Extent("n"), k = v.Extent("k");
  const Scaled a = c.Codes("a", Dim::M(), k);
  const Scaled w = c.Codes("w", Dim::Constant(n), k);
  const ValueId bias = c.Constant("bias1", {n}, v.Flag("bias1"));
  const Activation act = ActOf(v);
  return c.Finish(AddScaledLinear(c.b(), a, w, bias, act, AccumulateOf(v)));
}

template <bool kGated>
absl::StatusOr<Chain> MakeScaledFfn(const FieldValues& v) {
  ScaledChain c(v);
  const int64_t n = v.Extent("n"), k = v.Extent("k"), l = v.Extent("l");
  const bool bias1 = v.Flag("bias1");
  ScaledFfnOperands in;
  in.a = c.Codes("a", Dim::M(), k);
  in.w1 = c.Codes(kGated ? "w_gate" : "w1", Dim::Constant(n), k);
  if (kGated) in.w_up = c.Codes("w_up", Dim::Constant(n), k);
  in.bias1 = c.Constant(kGated ? "bias_gate" : "bias1", {n}, bias1);
  in.bias_up = c.Constant("bias_up", {n}, kGated && bias1);
  const QuantizeSpec spec = c.Quantizer("quantize");
  in.w2 = c.Codes(kGated ? "w_down" : "w2", Dim::Constant(l), n);
  in.bias2 = c.Constant("bias2", {l}, v.Flag("bias2"));
  const Activation act = ActOf(v);
  return c.Finish(AddScaledFfn(c.b(), in, kGated, spec, act, AccumulateOf(v)));
}

// Rows with the ids of their experts.
struct Routed {
  Scaled rows;
  ValueId ids = kNoValue;
};
Routed RoutedRows(ScaledChain& c, const FieldValues& v, const char* name) {
  Routed in;
  in.rows = c.Codes(name, Dim::M(), v.Extent("k"));
  in.ids = c.Input("ids", {DType::kS32, {Dim::M(), Dim::Constant(v.Extent("top"))}});
  return in;
}

absl::StatusOr<Chain> MakeScaledGroupedMatmul(const FieldValues& v) {
  ScaledChain c(v);
  const Routed in = RoutedRows(c, v, "a");
  const Scaled w = c.Matrices("w", v.Extent("experts"), v.Extent("n"), v.Extent("k"));
  return c.Finish(
      c.b().ScaledGroupedMatmul(in.rows.codes, w.codes, in.ids, in.rows.scale, w.scale));
}

absl::StatusOr<Chain> MakeScaledGroupedGatedFfn(const FieldValues& v) {
  const int64_t n = v.Extent("n"), experts = v.Extent("experts");
  if (n > kMaxExtent / 2) {
    return InvalidField("n", n, absl::StrCat("at most ", kMaxExtent / 2), ": w1 has 2 n columns");
  }
  ScaledChain c(v);
  const Routed rows = RoutedRows(c, v, "x");
  ScaledGroupedFfnOperands in;
  in.a = rows.rows;
  in.ids = rows.ids;
  in.weights = c.Input("weights", {DType::kF32, {Dim::M(), Dim::Constant(v.Extent("top"))}});
  in.w1 = c.Matrices("w1", experts, 2 * n, v.Extent("k"));
  const QuantizeSpec spec = c.Quantizer("quantize");
  in.w2 = c.Matrices("w2", experts, v.Extent("l"), n);
  const Activation act = ActOf(v);
  const GateOrder order = ParseGateOrder(v.Name("order")).value_or(GateOrder::kGateUp);
  return c.Finish(AddScaledGroupedGatedFfn(c.b(), in, spec, act, order));
}

constexpr char kCodesWords[] = "e4m3 s8";
constexpr char kGranularityWords[] = "tensor row group static";

const FieldSpec kScales{"scales", FieldType::kName, kDefaultGranularity.text,
                        "of a and weights: one; of a row and a channel; 1 x 128 and 128 x 128",
                        "tensor row group"};
const FieldSpec kGranularity{"granularity", FieldType::kName, kDefaultGranularity.text,
                             "what shares a scale; static: scale is an input", kGranularityWords};
const FieldSpec kQuantize{"quantize", FieldType::kName, kDefaultGranularity.text,
                          "what shares a scale of c; static: it is an input", kGranularityWords};
const FieldSpec kCodes{"codes", FieldType::kName, "e4m3", "8-bit type", kCodesWords};
const FieldSpec kQuantizeEps{"quantize_eps", FieldType::kNumber, kDefaultQuantizeEps.text,
                             "the least of the largest magnitude"};
const FieldSpec kUpperBound{"upper_bound", FieldType::kNumber, "0",
                            "the most of the largest magnitude; 0: none"};
const FieldSpec kUe8m0{"ue8m0", FieldType::kFlag, "0", "whether scales are powers of two"};
const FieldSpec kUnquantised{"dtype", FieldType::kName, "bf16", "of what is not quantised",
                             kDTypeWords};

const FieldSpec kAccumulate{"accumulate", FieldType::kName, "promoted",
                            "fast: sums of e4m3 stay in the tensor cores", "promoted fast"};

const FieldSpec kE4M3{"codes", FieldType::kName, "e4m3", "8-bit type", "e4m3"};
const FieldSpec kExpertScales{"scales", FieldType::kName, kDefaultGranularity.text,
                              "of rows and an expert's weights: one of all rows and each expert; "
                              "of a row and a channel; 1 x 128 and 128 x 128",
                              "tensor row group"};

std::vector<FieldSpec> FfnFields() {
  return {kM,           kN,          kK,     kL,           kAct,   kScales, kQuantize,  kCodes,
          kQuantizeEps, kUpperBound, kUe8m0, kUnquantised, kBias1, kBias2,  kAccumulate};
}

}  // namespace

std::vector<KindSpec> ScaledKinds() {
  return {
      {"quantize",
       {kRows, kCols, kGranularity, kCodes, kQuantizeEps, kUpperBound, kUe8m0, kUnquantised},
       MakeQuantize,
       "x / scale as 8-bit codes, and the scale",
       "x[rows,cols], with granularity=static scale*"},
      {"rmsnorm_quantize",
       {kRows, kCols, kRmsEps, kGranularity, kCodes, kQuantizeEps, kUpperBound, kUe8m0,
        kUnquantised},
       MakeRmsNormQuantize,
       "RMS(x) / scale as 8-bit codes, and the scale",
       "x[rows,cols] gamma*[cols], with granularity=static scale*"},
      {"scaled_matmul",
       {kM, kN, kK, kOptionalAct, kScales, kCodes, kUnquantised, kBias1, kAccumulate},
       MakeScaledMatmul,
       "act(a w + bias1) of 8-bit codes and scales",
       "a[m,k] scale_a w*[n,k] scale_w*, with bias1=1 bias1*[n]"},
      {"scaled_gemm_chain", FfnFields(), MakeScaledFfn<false>,
       "quantised c times w2 + bias2 with c = act(a w1 + bias1), of 8-bit codes and scales",
       "a[m,k] scale_a w1*[n,k] scale_w1*, with bias1=1 bias1*[n], with quantize=static scale*, "
       "w2*[l,n] scale_w2*, with bias2=1 bias2*[l]"},
      {"scaled_gated_ffn", FfnFields(), MakeScaledFfn<true>,
       "quantised c times w_down + bias2 with c = act(a w_gate + bias_gate) * (a w_up + "
       "bias_up), of "
       "8-bit codes and scales",
       "a[m,k] scale_a w_gate*[n,k] scale_w_gate* w_up*[n,k] scale_w_up*, with bias1=1 "
       "bias_gate*[n] "
       "bias_up*[n], with quantize=static scale*, w_down*[l,n] scale_w_down*, with bias2=1 "
       "bias2*[l]"},
      {"scaled_grouped_matmul",
       {kM, kExperts, kTop, kN, kK, kExpertScales, kE4M3, kUnquantised},
       MakeScaledGroupedMatmul,
       "w[ids[m, t]] a[m] of e4m3 codes and scales, zeros where there is no such matrix",
       "a[m,k] scale_a ids[m,top] of s32, w*[experts,n,k] scale_w*"},
      {"scaled_grouped_gated_ffn",
       {kM, kExperts, kTop, kN, kK, kL, kAct, kOrder, kExpertScales, kQuantize, kE4M3, kQuantizeEps,
        kUpperBound, kUe8m0, kUnquantised},
       MakeScaledGroupedGatedFfn,
       "the sum over t of weights[m, t] w2[ids[m, t]] c with c = act(gate) * up, quantised, of "
       "w1[ids[m, t]] x[m], of e4m3 codes and scales",
       "x[m,k] scale_x ids[m,top] of s32, weights[m,top] of f32, w1*[experts,2 n,k] scale_w1*, "
       "with quantize=static scale*, w2*[experts,l,n] scale_w2*"},
  };
}

}  // namespace sinter
