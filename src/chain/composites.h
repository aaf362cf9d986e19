// Composites: named groups of primitives, expanded as they are added. Exact formulas:
// docs/chains.md.
#ifndef SINTER_SRC_CHAIN_COMPOSITES_H_
#define SINTER_SRC_CHAIN_COMPOSITES_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/builder.h"
#include "src/chain/choices.h"

namespace sinter {

// The defaults of a composite's optional fields. The one table: the text form takes them for a
// key that is not given, the C ABI and its bindings for a field that is 0. Where 0 means the
// default it is not a value of its own, so eps and scale must differ from 0 (composites.cc).

// `text` is how the text form writes `value`.
template <typename T>
struct Default {
  T value;
  const char* text;
};

constexpr Default<double> kDefaultLayerNormEps{1e-5, "1e-05"};
constexpr Default<double> kDefaultRmsNormEps{1e-6, "1e-06"};
constexpr Default<double> kDefaultQuantizeEps{1e-10, "1e-10"};
constexpr Default<double> kDefaultSoftmaxScale{1, "1"};
constexpr Default<Activation> kDefaultActivation{Activation::kIdentity, "identity"};
constexpr Default<Layout> kDefaultLayout{Layout::kOI, "oi"};
constexpr Default<Granularity> kDefaultGranularity{Granularity::kRow, "row"};

constexpr ValueId kNoValue = -1;  // an operand that is absent

// Each adds all of its primitives or none; errors as ChainBuilder's, with the composite as the op's
// kind
// ("op 5 (softmax): axis is 3, must be in [-2, 1]"). Results are f32 unless said: the caller adds
// the cast that rounds.
absl::StatusOr<ValueId> AddActivation(ChainBuilder& b, Activation act, ValueId x);
absl::StatusOr<ValueId> AddGeluTanh(ChainBuilder& b, ValueId x);
absl::StatusOr<ValueId> AddGeluErf(ChainBuilder& b, ValueId x);
absl::StatusOr<ValueId> AddSilu(ChainBuilder& b, ValueId x);
// max(x, 0) + log1p(exp(-|x|)): log(1 + exp(x)), which neither overflows nor loses small results.
absl::StatusOr<ValueId> AddSoftplus(ChainBuilder& b, ValueId x);
// min(max(x, least), most) in x's dtype, to which the bounds are rounded; where they cross it is
// `most`. An infinite number means no bound; at least one is finite. x is floating or s32.
absl::StatusOr<ValueId> AddClamp(ChainBuilder& b, ValueId x, double least, double most);
absl::StatusOr<ValueId> AddSwiglu(ChainBuilder& b, ValueId gate, ValueId up);  // silu(gate) * up

// The place, s32 [..], of the largest (or smallest) number of each row of x [.., n]: of equal ones
// the first, and the first NaN where there is one.
absl::StatusOr<ValueId> AddArgmax(ChainBuilder& b, ValueId x);
absl::StatusOr<ValueId> AddArgmin(ChainBuilder& b, ValueId x);

// softmax(scale * x + mask) along `axis` (negative counts from the end); mask kNoValue, or no
// pred and broadcastable to x; scale is not 0 in f32.
absl::StatusOr<ValueId> AddSoftmax(ChainBuilder& b, ValueId x, int axis,
                                   double scale = kDefaultSoftmaxScale.value,
                                   ValueId mask = kNoValue);
struct AttentionOptions {
  double scale = 0;         // 0: 1 / sqrt(d)
  bool causal = false;      // row i sees keys 0 to i
  ValueId bias = kNoValue;  // a number, added to the scaled scores, to whose dims it broadcasts
  ValueId mask = kNoValue;  // a pred, false for keys that a row does not see; broadcasts like bias
};
// softmax(scale * q k^T + bias) v of q [.., rows, d], k [.., keys, d] and v [.., keys, e], whose
// other dims are equal, or absent. Probabilities are rounded to v's dtype. A row that sees no key
// is NaN.
absl::StatusOr<ValueId> AddAttention(ChainBuilder& b, ValueId q, ValueId k, ValueId v,
                                     const AttentionOptions& options = {});
// (x - mean) * rsqrt(var + eps) * gamma + beta over the last axis, biased variance; gamma, beta
// [last] or kNoValue; eps is in (0, 1] in f32.
absl::StatusOr<ValueId> AddLayerNorm(ChainBuilder& b, ValueId x, double eps,
                                     ValueId gamma = kNoValue, ValueId beta = kNoValue);
// x * rsqrt(mean(x^2) + eps) * gamma over the last axis.
absl::StatusOr<ValueId> AddRmsNorm(ChainBuilder& b, ValueId x, double eps,
                                   ValueId gamma = kNoValue);
// Rotary embedding, halves form: (t1, t2) = halves of x's last axis: concat(t1*cos - t2*sin, t2*cos
// + t1*sin). cos and sin broadcast to a half's shape.
absl::StatusOr<ValueId> AddRope(ChainBuilder& b, ValueId x, ValueId cos, ValueId sin);

struct LstmResult {
  ValueId h = kNoValue, c = kNoValue;
};
// gates [.., 4h]: slices i, f, j, o. c' = s(f)*c + s(i)*tanh(j); h' = s(o)*tanh(c').
absl::StatusOr<LstmResult> AddLstmCell(ChainBuilder& b, ValueId gates, ValueId c);
// xg, hg [.., 3h]: r = s(x0+h0), z = s(x1+h1), n = tanh(x2 + r*h2): h' = (1-z)*n + z*h.
absl::StatusOr<ValueId> AddGruCell(ChainBuilder& b, ValueId xg, ValueId hg, ValueId h);

// act(x W + bias): W is [out, in] (kOI) or [in, out] (kIO); bias [out] or kNoValue. f32, not
// rounded.
absl::StatusOr<ValueId> AddLinear(ChainBuilder& b, ValueId x, ValueId w, ValueId bias,
                                  Layout layout, Activation act = Activation::kIdentity);
// c = act(a w1 + bias1) unrounded; the result is c w2 + bias2, cast to a's dtype.
struct GemmChainOperands {
  ValueId a = kNoValue, w1 = kNoValue, bias1 = kNoValue, w2 = kNoValue, bias2 = kNoValue;
};
absl::StatusOr<ValueId> AddGemmChain(ChainBuilder& b, const GemmChainOperands& in, Activation act,
                                     Layout layout);
// c = act(a w_gate + bias_gate) * (a w_up + bias_up) unrounded; the result is c w_down + bias2,
// cast to a's dtype.
struct GatedFfnOperands {
  ValueId a = kNoValue, w_gate = kNoValue, w_up = kNoValue, bias_gate = kNoValue,
          bias_up = kNoValue, w_down = kNoValue, bias2 = kNoValue;
};
absl::StatusOr<ValueId> AddGatedFfn(ChainBuilder& b, const GatedFfnOperands& in, Activation act,
                                    Layout layout);

// Where the gate lies among w1's columns: the first half, the second one, or every second column
// from the first on.
enum class GateOrder : int32_t { kGateUp = 1, kUpGate = 2, kInterleaved = 3 };
inline constexpr char kGateOrderWords[] = "gate_up up_gate interleaved";
absl::string_view NameOf(GateOrder order);
absl::StatusOr<GateOrder> ParseGateOrder(absl::string_view name);

// The gated FFN of a mixture of experts: row m's result is the sum over its slots t of weights[m,
// t] (w2[e] c + bias2[e]) with e = ids[m, t] and c = act(gate) * (up + beta), rounded to a's dtype;
// gate and up are columns of w1[e] a[m] + bias1[e], in `order`. a [m, k], ids and weights [m, t],
// w1 [experts, 2 n, k] and w2 [experts, l, n], of kIO with the last two dims exchanged; bias1
// [experts, 2 n] and bias2 [experts, l]. An id outside of w1 adds nothing. Each term is rounded
// to a's dtype before it is added, as peers store them, and so is the sum.
struct GroupedFfnOperands {
  ValueId a = kNoValue, ids = kNoValue, weights = kNoValue, w1 = kNoValue, w2 = kNoValue;
  ValueId bias1 = kNoValue, bias2 = kNoValue;
};
struct GroupedFfnOptions {
  Activation act = Activation::kIdentity;
  Layout layout = Layout::kOI;
  GateOrder order = GateOrder::kGateUp;
  bool weight_on_input = false;  // weights multiply w1[e] a[m], that is a[m], not the result
  double alpha = 1;              // of silu: gate * sigmoid(alpha gate)
  double beta = 0;
  double limit = 0;  // more than 0: gate is at most it, and up within -limit and limit
};
absl::StatusOr<ValueId> AddGroupedGatedFfn(ChainBuilder& b, const GroupedFfnOperands& in,
                                           const GroupedFfnOptions& options);

// conv2d in `groups`. Where x and the result have as many channels, each channel is correlated with
// a filter of its own, w [channels, height, width, 1] (OHWI) or [height, width, 1, channels]
// (HWIO): a sum over windows.
absl::StatusOr<ValueId> AddConv2d(ChainBuilder& b, ValueId x, ValueId w, const Conv2d& conv,
                                  int64_t groups);
// The largest pixel of each window of x [batch, height, width, channels], in x's dtype; -infinity
// of a window without one. NaN stays NaN. `conv`: how the window moves.
absl::StatusOr<ValueId> AddMaxPool2d(ChainBuilder& b, ValueId x, const std::array<int64_t, 2>& taps,
                                     const Conv2d& conv);
// The mean of the pixels of each window, with `count_pads` counting zeros around the image too;
// without it each pad must be less than the window's extent.
absl::StatusOr<ValueId> AddAvgPool2d(ChainBuilder& b, ValueId x, const std::array<int64_t, 2>& taps,
                                     const Conv2d& conv, bool count_pads);

// Codes of 8 bits and the scale (f32) that turns them back, as infer.h has them.
struct Scaled {
  ValueId codes = kNoValue, scale = kNoValue;
};
struct QuantizeSpec {
  Granularity granularity = kDefaultGranularity.value;
  DType codes = DType::kE4M3;  // or kS8
  double eps = kDefaultQuantizeEps.value;
  double upper_bound = 0;    // 0: none
  bool ue8m0 = false;        // the scale is a power of two
  ValueId scale = kNoValue;  // of rank 0; kStatic only
};
// amax = the largest |x| that shares a value of the scale; scale = max(min(amax, upper_bound), eps)
// / F, with ue8m0 the next power of two; F is 448 of e4m3, 127 of s8. The codes are x / scale,
// rounded by the cast. x is [.., k]; the scale is [] (tensor, static), [.., 1] or [.., k / 128]
// (groups of 128). A NaN makes its scale NaN.
absl::StatusOr<Scaled> AddQuantize(ChainBuilder& b, ValueId x, const QuantizeSpec& spec = {});

// act(a w + bias): a [m, k] and w [n, k] with their scales. f32, not rounded.
absl::StatusOr<ValueId> AddScaledLinear(ChainBuilder& b, Scaled a, Scaled w,
                                        ValueId bias = kNoValue,
                                        Activation act = Activation::kIdentity,
                                        Accumulate accumulate = Accumulate::kPromoted);
// c = act(a w1 + bias1), or with `w_up` act(a w1 + bias1) * (a w_up + bias_up); c is quantised; the
// result is c w2 + bias2, not rounded. `accumulate`: of all products.
struct ScaledFfnOperands {
  Scaled a, w1, w_up, w2;
  ValueId bias1 = kNoValue, bias_up = kNoValue, bias2 = kNoValue;
};
absl::StatusOr<ValueId> AddScaledFfn(ChainBuilder& b, const ScaledFfnOperands& in, bool gated,
                                     const QuantizeSpec& quantize, Activation act,
                                     Accumulate accumulate = Accumulate::kPromoted);

// As AddGroupedGatedFfn of codes and scales: c is quantised, each term rounded to bf16, and their
// sum is f32. a [m, k], w1 [experts, 2 n, k], w2 [experts, l, n].
struct ScaledGroupedFfnOperands {
  Scaled a, w1, w2;
  ValueId ids = kNoValue, weights = kNoValue;
};
absl::StatusOr<ValueId> AddScaledGroupedGatedFfn(ChainBuilder& b,
                                                 const ScaledGroupedFfnOperands& in,
                                                 const QuantizeSpec& quantize, Activation act,
                                                 GateOrder order);

// Whole chains with their own inputs, in the order of docs/chains.md. One output.
struct FfnSpec {
  bool gated = false;
  int products = 2;  // 1: act(a w1 + bias1), or the gate-up pair when gated
  Dim m = Dim::M();
  int64_t n = 0, k = 0, l = 0;  // l unused when products is 1
  Activation act = Activation::kIdentity;
  Layout layout = Layout::kOI;
  DType dtype = DType::kBF16;
  bool bias1 = false, bias2 = false;
  bool residual = false;                       // the result is c w2 + residual, cast to dtype
  bool rounds_sum = false;                     // c w2 is cast to dtype before the addition too
  Activation sum_act = Activation::kIdentity;  // of the sum with the residual
  // Each product X w becomes scale * factor * scale_w * (X w): a constant, a number of each row and
  // a number of each column.
  double scale1 = 1, scale2 = 1;
  bool factor1 = false, factor2 = false;
  bool scale_w1 = false, scale_w2 = false;
  DType factor_dtype = DType::kF32, scale_w_dtype = DType::kF32;  // f32 or dtype
};
// Inputs: a[m,k], w1 (or w_gate, w_up), (bias1[n] or bias_gate[n], bias_up[n]), (factor1[m,1]),
// (scale_w1[n] or scale_gate[n], scale_up[n]), then for two products w2, (bias2[l]),
// (factor2[m,1]), (scale_w2[l]), then (residual[m,l], or [m,n] of one product). Weights, biases and
// scales of columns constant.
absl::StatusOr<Chain> MakeFfnChain(const FfnSpec& spec);

// A sequence of products: X1 from a, X2 from X1, .. X' = act(X w + bias), or gated
// act(X w_gate + bias_gate) * (X w_up + bias_up). None is rounded but the last, which is the
// output.
struct ProductSpec {
  bool gated = false;
  Activation act = Activation::kIdentity;
  int64_t n = 0;  // columns of X'
  bool bias = false;
};
struct ProductsSpec {
  Dim m = Dim::M();
  int64_t k = 0;  // columns of a
  std::vector<ProductSpec> products;
  Layout layout = Layout::kOI;
  DType dtype = DType::kBF16;
};
// Inputs: a[m,k], then of each product its weights (w1, or w_gate1 and w_up1) and, with a bias, as
// many vectors. Weights and biases constant.
absl::StatusOr<Chain> MakeProductsChain(const ProductsSpec& spec);

// Where a tensor of the result's dims is added.
enum class ConvResidual { kNone, kBeforeActivation, kBehindActivation };

// Convolutions in turn: each act(scale * (x conv w) + bias + r) or act(scale * (x conv w) + bias) +
// r. None is rounded but the last, which is the output.
struct ConvLayer {
  int64_t out = 0;                    // channels of the result
  std::array<int64_t, 2> taps{1, 1};  // height, width
  Conv2d conv;                        // its filter layout is the spec's
  Activation act = Activation::kIdentity;
  bool scale = false, bias = false;
  ConvResidual residual = ConvResidual::kNone;
  int64_t groups = 1;  // of channels
};
struct ConvSpec {
  Dim batch = Dim::M();
  int64_t height = 0, width = 0, channels = 0;
  std::vector<ConvLayer> layers;
  FilterLayout filter = FilterLayout::kOHWI;
  DType dtype = DType::kBF16;
};
// Pads that keep an axis' pixels at stride 1: low and high.
std::array<int64_t, 2> SamePads(int64_t taps, int64_t dilation);
// Inputs: x[batch,height,width,channels], then of each layer w, (scale[out]), (bias[out]), (r).
// Filters, scales and biases constant.
absl::StatusOr<Chain> MakeConvChain(const ConvSpec& spec);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_COMPOSITES_H_
