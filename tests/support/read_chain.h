// Chains from text: ReadChain("x: bf16[M,64]; w: const bf16[32,64]; out bf16(relu(x @ w.T))").
//
// Statements end with ';':
//   x, y: [const] dtype[dims] [strides(8, 1)]   inputs; a stride of M is written 4*M
//   name = expression                           a value that later statements name
//   out expression, expression [over input]     outputs, the last in an input's place
// Expressions: names, numbers (scalars of f32, or 2:bf16), + - * / of BinaryKind, a @ b with .T
// after a transposed operand, x[0:4, :, 0:32:2], {const f32[8]} for an input without a name, and
// calls:
//   dtype(x)                                    Cast
//   names of UnaryKind, BinaryKind, CompareKind, and select(c, a, b)
//   sum mean reduce_max reduce_min(x, axis.. [, keep])
//   spread(x, [dims] or y), reshape(x, [dims]), transpose(x, axis..), concat(x, y.., axis)
//   gather(x, ids [, axis]), scatter(x, ids, rows), topk(x, count), cumsum(x),
//   iota([dims], axis, dtype), random([dims], seed, offset), conv(x, w)
//   grouped(x, w, ids), grouped_by_ends(x, w, ends), scaled(x, w, scale of x, scale of w)
//   all_reduce(x, ranks), all_gather(x, axis, ranks), reduce_scatter(x, axis, ranks)
//   linear(x, w, bias or none, act [, layout=io]), activation(x, act), gelu_tanh, gelu_erf, silu,
//   softplus(x), swiglu(gate, up), clamp(x, least, most), argmax(x), argmin(x),
//   softmax(x [, axis, scale, mask]), layernorm(x, eps [, gamma, beta]), rmsnorm(x, eps [, gamma]),
//   attention(q, k, v [, scale=, bias=, mask=]), rope(x, cos, sin), gru_cell(xg, hg, h),
//   dequantize_u4(w, scale, zero), dequantize_e2m1(w, scale), both also with _packed,
//   scaled_linear(x, its scale, w, its scale [, bias, act=, accumulate=]),
//   scaled_gemm_chain and scaled_gated_ffn(x, w1, w_up, w2, each and its scale [, bias1=, bias_up=,
//   bias2=, act=, accumulate=, keys of quantize]),
//   slice(x, starts=[0,4], limits=[M,8], steps=[1,2]), scalar(number, dtype),
//   value(number of a value), gemm_chain, gated_ffn and grouped_gated_ffn of their operands,
//   window(x, fill, taps=[3,3]), max_pool2d, avg_pool2d(x, taps=[2,2]), conv2d(x, w, groups=2),
//   each with strides=[2,1], dilations=[1,1], pads=[top,bottom,left,right], layout=hwio
// Statements of calls with two results:
//   h, c = lstm_cell(gates, c)
//   token, logarithm = next_token(logits, seed, offset [, count=20, temperature=, k=, top_p=,
//                                 min_p=, logprob=1])
//   codes, scale = quantize(x [, granularity=row, codes=s8, eps=, upper_bound=, ue8m0=1, scale=])
// `$0`, `$1` stand for further arguments.
#pragma once

#include "absl/strings/substitute.h"
#include "tests/support/chains.h"

namespace sinter {

class ChainReader {
 public:
  ChainReader() = default;
  template <typename... Pieces>
  explicit ChainReader(absl::string_view text, const Pieces&... pieces) {
    Add(text, pieces...);
  }

  // Reads statements. Text that is not a statement, and what the builder refuses, ends the test.
  template <typename... Pieces>
  void Add(absl::string_view text, const Pieces&... pieces) {
    Need(TryAdd(absl::Substitute(text, pieces...)));
  }
  // The error of the first call that the builder refuses.
  absl::Status TryAdd(const std::string& text);

  // The value of an expression.
  template <typename... Pieces>
  ValueId operator()(absl::string_view text, const Pieces&... pieces) {
    Add(absl::StrCat("_ = ", text), pieces...);
    return values_.at("_");
  }
  ValueId operator[](const std::string& name) const { return values_.at(name); }
  // Names a value that was added to builder() by other means.
  void Name(const std::string& name, ValueId id) { values_[name] = id; }

  void Out(ValueId id, const OutputOptions& options = {}) { Need(builder_.Output(id, options)); }
  Chain Finish();
  ChainBuilder& builder() { return builder_; }

 private:
  friend class ChainParser;
  static void Need(const absl::Status& status) {
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }
  ChainBuilder builder_;
  std::map<std::string, ValueId> values_;
};

template <typename... Pieces>
Chain ReadChain(absl::string_view text, const Pieces&... pieces) {
  return ChainReader(text, pieces...).Finish();
}

// "M" for 0: extents of graphs whose rows may be M.
inline std::string ExtentText(int64_t extent) { return extent == 0 ? "M" : absl::StrCat(extent); }

}  // namespace sinter
