// sinter_chain_add_*: the composites.
#include <tuple>
#include <utility>

#include "src/capi/adder.h"
#include "src/chain/choices.h"
#include "src/chain/composites.h"
#include "src/chain/composites_four_bits.h"
#include "src/chain/composites_next_token.h"
#include "src/chain/composites_packing.h"

namespace sinter::capi {
namespace {

// Fields that the options of several composites share.

Activation ActivationOf(Adder& add, sinter_activation value) {
  add.Require(value >= SINTER_ACTIVATION_IDENTITY && value <= SINTER_ACTIVATION_SILU, "activation",
              value, "a SINTER_ACTIVATION_* in [0, 4]");
  return static_cast<Activation>(value);
}

// `flags` belong to a GEMM of FP8 values.
Accumulate AccumulateOf(uint32_t flags) {
  return (flags & SINTER_ACCUMULATE_FAST) != 0 ? Accumulate::kFast : Accumulate::kPromoted;
}

// A number of an options struct: 0 means the default.
double NumberOf(double value, const Default<double>& otherwise) {
  return value == 0 ? otherwise.value : value;
}

Layout LayoutOf(Adder& add, sinter_layout value) {
  add.Require(value >= 0 && value <= SINTER_LAYOUT_IO, "layout", value,
              "SINTER_LAYOUT_OI or SINTER_LAYOUT_IO");
  if (value == 0) return kDefaultLayout.value;
  return value == SINTER_LAYOUT_IO ? Layout::kIO : Layout::kOI;
}

static_assert(static_cast<sinter_activation>(kDefaultActivation.value) == 0,
              "the field is the activation itself, so its 0 must be the default");

Scaled ScaledOf(Adder& add, const std::string& name, sinter_scaled value) {
  return {add.Operand("codes of " + name, value.codes),
          add.Operand("scale of " + name, value.scale)};
}

absl::StatusOr<QuantizeSpec> SpecOf(Adder& add, const sinter_quantize_options* options) {
  SINTER_ASSIGN_OR_RETURN(const auto given,
                          ReadOptions(options, "quantize", SINTER_QUANTIZE_UE8M0));
  QuantizeSpec spec;
  if (given.granularity != 0) spec.granularity = static_cast<Granularity>(given.granularity);
  if (given.codes != 0) spec.codes = add.Type(given.codes);
  spec.eps = NumberOf(given.eps, kDefaultQuantizeEps);
  spec.upper_bound = given.upper_bound;
  spec.ue8m0 = (given.flags & SINTER_QUANTIZE_UE8M0) != 0;
  spec.scale = add.OptionalOperand("static_scale", given.static_scale);
  return spec;
}

void RequireOi(Adder& add, sinter_layout layout) {
  add.Require(layout == 0 || layout == SINTER_LAYOUT_OI, "layout", layout, "SINTER_LAYOUT_OI",
              ": 8-bit weights are [out, in]");
}

constexpr uint32_t kGateOrders = SINTER_GROUPED_UP_FIRST | SINTER_GROUPED_INTERLEAVED;
GateOrder OrderOf(Adder& add, uint32_t flags) {
  add.Require((flags & kGateOrders) != kGateOrders,
              "flags have both UP_FIRST and INTERLEAVED, must have one of them: in turns the gate "
              "comes first");
  return (flags & SINTER_GROUPED_INTERLEAVED) != 0 ? GateOrder::kInterleaved
         : (flags & SINTER_GROUPED_UP_FIRST) != 0  ? GateOrder::kUpGate
                                                   : GateOrder::kGateUp;
}

}  // namespace
}  // namespace sinter::capi

namespace capi = sinter::capi;
using capi::Operand;
using capi::Optional;
using sinter::ValueId;
using Result = absl::StatusOr<ValueId>;

extern "C" {

sinter_status sinter_chain_add_activation(sinter_chain* chain, sinter_activation activation,
                                          sinter_value x, sinter_value* out_value,
                                          sinter_error** error) {
  const auto act = [&](capi::Adder& add) { return capi::ActivationOf(add, activation); };
  return capi::AddOf(chain, "activation", out_value, error, sinter::AddActivation, act,
                     Operand{"x", x});
}

sinter_status sinter_chain_add_softplus(sinter_chain* chain, sinter_value x,
                                        sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "softplus", out_value, error, sinter::AddSoftplus, Operand{"x", x});
}

sinter_status sinter_chain_add_argmax(sinter_chain* chain, sinter_value x, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddOf(chain, "argmax", out_value, error, sinter::AddArgmax, Operand{"x", x});
}

sinter_status sinter_chain_add_argmin(sinter_chain* chain, sinter_value x, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddOf(chain, "argmin", out_value, error, sinter::AddArgmin, Operand{"x", x});
}

sinter_status sinter_chain_add_clamp(sinter_chain* chain, sinter_value x, double min, double max,
                                     sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "clamp", out_value, error, sinter::AddClamp, Operand{"x", x}, min, max);
}

sinter_status sinter_chain_add_max_pool2d(sinter_chain* chain, sinter_value x,
                                          const sinter_window_options* options,
                                          sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(chain, "max_pool2d", options, 0, out_value, error,
                       [&](capi::Adder& add, const auto& given) {
                         return add.Add(sinter::AddMaxPool2d, Operand{"x", x}, capi::TapsOf(given),
                                        capi::MovesOf(given));
                       });
}

sinter_status sinter_chain_add_avg_pool2d(sinter_chain* chain, sinter_value x,
                                          const sinter_window_options* options,
                                          sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(chain, "avg_pool2d", options, SINTER_WINDOW_EXCLUDE_PADS, out_value, error,
                       [&](capi::Adder& add, const auto& given) {
                         return add.Add(sinter::AddAvgPool2d, Operand{"x", x}, capi::TapsOf(given),
                                        capi::MovesOf(given),
                                        (given.flags & SINTER_WINDOW_EXCLUDE_PADS) == 0);
                       });
}

sinter_status sinter_chain_add_swiglu(sinter_chain* chain, sinter_value gate, sinter_value up,
                                      sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "swiglu", out_value, error, sinter::AddSwiglu, Operand{"gate", gate},
                     Operand{"up", up});
}

sinter_status sinter_chain_add_softmax(sinter_chain* chain, sinter_value x, int32_t axis,
                                       const sinter_softmax_options* options,
                                       sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(chain, "softmax", options, 0, out_value, error,
                       [&](capi::Adder& add, const auto& given) {
                         return add.Add(sinter::AddSoftmax, Operand{"x", x}, axis,
                                        capi::NumberOf(given.scale, sinter::kDefaultSoftmaxScale),
                                        Optional{"mask", given.mask});
                       });
}

sinter_status sinter_chain_add_attention(sinter_chain* chain, sinter_value q, sinter_value k,
                                         sinter_value v, const sinter_attention_options* options,
                                         sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(
      chain, "attention", options, SINTER_ATTENTION_CAUSAL, out_value, error,
      [&](capi::Adder& add, const auto& given) {
        sinter::AttentionOptions to;
        to.scale = given.scale;
        to.causal = (given.flags & SINTER_ATTENTION_CAUSAL) != 0;
        to.bias = add.OptionalOperand("bias", given.bias);
        to.mask = add.OptionalOperand("mask", given.mask);
        return add.Add(sinter::AddAttention, Operand{"q", q}, Operand{"k", k}, Operand{"v", v}, to);
      });
}

sinter_status sinter_chain_add_layernorm(sinter_chain* chain, sinter_value x,
                                         const sinter_norm_options* options,
                                         sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(
      chain, "layernorm", options, 0, out_value, error, [&](capi::Adder& add, const auto& given) {
        return add.Add(sinter::AddLayerNorm, Operand{"x", x},
                       capi::NumberOf(given.eps, sinter::kDefaultLayerNormEps),
                       Optional{"gamma", given.gamma}, Optional{"beta", given.beta});
      });
}

sinter_status sinter_chain_add_rmsnorm(sinter_chain* chain, sinter_value x,
                                       const sinter_norm_options* options, sinter_value* out_value,
                                       sinter_error** error) {
  return capi::AddWith(
      chain, "rmsnorm", options, 0, out_value, error, [&](capi::Adder& add, const auto& given) {
        add.Require(given.beta == SINTER_NO_VALUE, "beta is given: rmsnorm has none");
        return add.Add(sinter::AddRmsNorm, Operand{"x", x},
                       capi::NumberOf(given.eps, sinter::kDefaultRmsNormEps),
                       Optional{"gamma", given.gamma});
      });
}

sinter_status sinter_chain_add_rope(sinter_chain* chain, sinter_value x, sinter_value cos,
                                    sinter_value sin, sinter_value* out_value,
                                    sinter_error** error) {
  return capi::AddOf(chain, "rope", out_value, error, sinter::AddRope, Operand{"x", x},
                     Operand{"cos", cos}, Operand{"sin", sin});
}

sinter_status sinter_chain_add_lstm_cell(sinter_chain* chain, sinter_value gates, sinter_value c,
                                         sinter_value* out_h, sinter_value* out_c,
                                         sinter_error** error) {
  return capi::AddValue(chain, "lstm_cell", out_h, error, [&](capi::Adder& add) -> Result {
    SINTER_RETURN_IF_ERROR(capi::CheckNotNull(out_c, "out_c"));
    const ValueId vg = add.Operand("gates", gates), vc = add.Operand("c", c);
    SINTER_RETURN_IF_ERROR(add.status());
    SINTER_ASSIGN_OR_RETURN(const auto result, sinter::AddLstmCell(add.builder(), vg, vc));
    *out_c = result.c + 1;
    return result.h;
  });
}

sinter_status sinter_chain_add_gru_cell(sinter_chain* chain, sinter_value xg, sinter_value hg,
                                        sinter_value h, sinter_value* out_value,
                                        sinter_error** error) {
  return capi::AddOf(chain, "gru_cell", out_value, error, sinter::AddGruCell, Operand{"xg", xg},
                     Operand{"hg", hg}, Operand{"h", h});
}

sinter_status sinter_chain_add_next_token(sinter_chain* chain, sinter_value logits,
                                          sinter_value seed, sinter_value offset,
                                          const sinter_next_token_options* options,
                                          sinter_value* out_token,
                                          sinter_value* out_log_probability, sinter_error** error) {
  return capi::AddWith(chain, "next_token", options, 0, out_token, error,
                       [&](capi::Adder& add, const auto& given) -> Result {
                         sinter::NextTokenOperands in;
                         in.logits = add.Operand("logits", logits);
                         in.seed = add.Operand("seed", seed);
                         in.offset = add.Operand("offset", offset);
                         in.temperature = add.OptionalOperand("temperature", given.temperature);
                         in.k = add.OptionalOperand("k", given.k);
                         in.top_p = add.OptionalOperand("top_p", given.top_p);
                         in.min_p = add.OptionalOperand("min_p", given.min_p);
                         SINTER_RETURN_IF_ERROR(add.status());
                         const bool wanted = out_log_probability != nullptr;
                         SINTER_ASSIGN_OR_RETURN(
                             const auto drawn,
                             sinter::AddNextToken(add.builder(), in, {given.count, wanted}));
                         if (wanted) *out_log_probability = drawn.log_probability + 1;
                         return drawn.token;
                       });
}

sinter_status sinter_chain_add_linear(sinter_chain* chain, sinter_value x, sinter_value w,
                                      const sinter_linear_options* options, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddWith(chain, "linear", options, 0, out_value, error,
                       [&](capi::Adder& add, const auto& given) {
                         const auto layout = capi::LayoutOf(add, given.layout);
                         const auto act = capi::ActivationOf(add, given.activation);
                         return add.Add(sinter::AddLinear, Operand{"x", x}, Operand{"w", w},
                                        Optional{"bias", given.bias}, layout, act);
                       });
}

sinter_status sinter_chain_add_gemm_chain(sinter_chain* chain, sinter_value a, sinter_value w1,
                                          sinter_value w2, const sinter_gemm_chain_options* options,
                                          sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(chain, "gemm_chain", options, 0, out_value, error,
                       [&](capi::Adder& add, const auto& given) -> Result {
                         sinter::GemmChainOperands in;
                         in.a = add.Operand("a", a);
                         in.w1 = add.Operand("w1", w1);
                         in.w2 = add.Operand("w2", w2);
                         in.bias1 = add.OptionalOperand("bias1", given.bias1);
                         in.bias2 = add.OptionalOperand("bias2", given.bias2);
                         const auto layout = capi::LayoutOf(add, given.layout);
                         const auto act = capi::ActivationOf(add, given.activation);
                         return add.Add(sinter::AddGemmChain, in, act, layout);
                       });
}

sinter_status sinter_chain_add_gated_ffn(sinter_chain* chain, sinter_value a, sinter_value w_gate,
                                         sinter_value w_up, sinter_value w_down,
                                         const sinter_gated_ffn_options* options,
                                         sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(chain, "gated_ffn", options, 0, out_value, error,
                       [&](capi::Adder& add, const auto& given) -> Result {
                         sinter::GatedFfnOperands in;
                         in.a = add.Operand("a", a);
                         in.w_gate = add.Operand("w_gate", w_gate);
                         in.w_up = add.Operand("w_up", w_up);
                         in.w_down = add.Operand("w_down", w_down);
                         in.bias_gate = add.OptionalOperand("bias_gate", given.bias_gate);
                         in.bias_up = add.OptionalOperand("bias_up", given.bias_up);
                         in.bias2 = add.OptionalOperand("bias2", given.bias2);
                         const auto layout = capi::LayoutOf(add, given.layout);
                         const auto act = capi::ActivationOf(add, given.activation);
                         return add.Add(sinter::AddGatedFfn, in, act, layout);
                       });
}

sinter_status sinter_chain_add_grouped_gated_ffn(sinter_chain* chain, sinter_value a,
                                                 sinter_value ids, sinter_value weights,
                                                 sinter_value w1, sinter_value w2,
                                                 const sinter_grouped_gated_ffn_options* options,
                                                 sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(
      chain, "grouped_gated_ffn", options, capi::kGateOrders | SINTER_GROUPED_WEIGHT_ON_INPUT,
      out_value, error, [&](capi::Adder& add, const auto& given) -> Result {
        sinter::GroupedFfnOperands in;
        in.a = add.Operand("a", a);
        in.ids = add.Operand("ids", ids);
        in.weights = add.Operand("weights", weights);
        in.w1 = add.Operand("w1", w1);
        in.w2 = add.Operand("w2", w2);
        in.bias1 = add.OptionalOperand("bias1", given.bias1);
        in.bias2 = add.OptionalOperand("bias2", given.bias2);
        sinter::GroupedFfnOptions wanted;
        wanted.layout = capi::LayoutOf(add, given.layout);
        wanted.act = capi::ActivationOf(add, given.activation);
        wanted.order = capi::OrderOf(add, given.flags);
        wanted.weight_on_input = (given.flags & SINTER_GROUPED_WEIGHT_ON_INPUT) != 0;
        wanted.alpha = given.alpha == 0 ? 1 : given.alpha;
        wanted.beta = given.beta;
        wanted.limit = given.limit;
        return add.Add(sinter::AddGroupedGatedFfn, in, wanted);
      });
}

sinter_status sinter_chain_add_quantize(sinter_chain* chain, sinter_value x,
                                        const sinter_quantize_options* options,
                                        sinter_scaled* out_scaled, sinter_error** error) {
  sinter_value* codes = out_scaled == nullptr ? nullptr : &out_scaled->codes;
  return capi::AddValue(chain, "quantize", codes, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto spec, capi::SpecOf(add, options));
    const ValueId vx = add.Operand("x", x);
    SINTER_RETURN_IF_ERROR(add.status());
    SINTER_ASSIGN_OR_RETURN(const auto scaled, sinter::AddQuantize(add.builder(), vx, spec));
    out_scaled->scale = scaled.scale + 1;
    return scaled.codes;
  });
}

sinter_status sinter_chain_add_dequantize_u4(sinter_chain* chain, sinter_value w,
                                             sinter_value scale, sinter_value zero,
                                             sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "dequantize_u4", out_value, error, sinter::AddDequantizeU4,
                     Operand{"w", w}, Operand{"scale", scale}, Operand{"zero", zero});
}

sinter_status sinter_chain_add_dequantize_e2m1(sinter_chain* chain, sinter_value w,
                                               sinter_value scale, sinter_value* out_value,
                                               sinter_error** error) {
  return capi::AddOf(chain, "dequantize_e2m1", out_value, error, sinter::AddDequantizeE2M1,
                     Operand{"w", w}, Operand{"scale", scale});
}

sinter_status sinter_chain_add_dequantize_u4_packed(sinter_chain* chain, sinter_value w,
                                                    sinter_value scale, sinter_value zero,
                                                    sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "dequantize_u4_packed", out_value, error, sinter::AddDequantizeU4Packed,
                     Operand{"w", w}, Operand{"scale", scale}, Operand{"zero", zero});
}

sinter_status sinter_chain_add_dequantize_e2m1_packed(sinter_chain* chain, sinter_value w,
                                                      sinter_value scale, sinter_value* out_value,
                                                      sinter_error** error) {
  return capi::AddOf(chain, "dequantize_e2m1_packed", out_value, error,
                     sinter::AddDequantizeE2M1Packed, Operand{"w", w}, Operand{"scale", scale});
}

sinter_status sinter_chain_add_pack_codes(sinter_chain* chain, sinter_value w,
                                          sinter_checkpoint checkpoint, sinter_value* out_value,
                                          sinter_error** error) {
  return capi::AddOf(chain, "pack_codes", out_value, error, sinter::AddPackCodes, Operand{"w", w},
                     static_cast<sinter::Checkpoint>(checkpoint));
}

sinter_status sinter_chain_add_pack_scales(sinter_chain* chain, sinter_value scale,
                                           sinter_checkpoint checkpoint, sinter_value* out_value,
                                           sinter_error** error) {
  return capi::AddOf(chain, "pack_scales", out_value, error, sinter::AddPackScales,
                     Operand{"scale", scale}, static_cast<sinter::Checkpoint>(checkpoint));
}

sinter_status sinter_chain_add_pack_zeros(sinter_chain* chain, sinter_value zero,
                                          sinter_checkpoint checkpoint, sinter_value* out_value,
                                          sinter_error** error) {
  return capi::AddOf(chain, "pack_zeros", out_value, error, sinter::AddPackZeros,
                     Operand{"zero", zero}, static_cast<sinter::Checkpoint>(checkpoint));
}

sinter_status sinter_chain_add_dequantize_e8m0(sinter_chain* chain, sinter_value scale,
                                               sinter_value* out_value, sinter_error** error) {
  return capi::AddOf(chain, "dequantize_e8m0", out_value, error, sinter::AddDequantizeE8M0,
                     Operand{"scale", scale});
}

sinter_status sinter_chain_add_scaled_matmul(sinter_chain* chain, sinter_scaled a, sinter_scaled w,
                                             const sinter_linear_options* options,
                                             sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(
      chain, "scaled_matmul", options, SINTER_ACCUMULATE_FAST, out_value, error,
      [&](capi::Adder& add, const auto& given) -> Result {
        capi::RequireOi(add, given.layout);
        const sinter::Scaled va = capi::ScaledOf(add, "a", a), vw = capi::ScaledOf(add, "w", w);
        const ValueId bias = add.OptionalOperand("bias", given.bias);
        const auto act = capi::ActivationOf(add, given.activation);
        return add.Add(sinter::AddScaledLinear, va, vw, bias, act, capi::AccumulateOf(given.flags));
      });
}

sinter_status sinter_chain_add_scaled_gemm_chain(sinter_chain* chain, sinter_scaled a,
                                                 sinter_scaled w1, sinter_scaled w2,
                                                 const sinter_quantize_options* quantize,
                                                 const sinter_gemm_chain_options* options,
                                                 sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(chain, "scaled_gemm_chain", options, SINTER_ACCUMULATE_FAST, out_value,
                       error, [&](capi::Adder& add, const auto& given) -> Result {
                         SINTER_ASSIGN_OR_RETURN(const auto spec, capi::SpecOf(add, quantize));
                         capi::RequireOi(add, given.layout);
                         sinter::ScaledFfnOperands in;
                         in.a = capi::ScaledOf(add, "a", a);
                         in.w1 = capi::ScaledOf(add, "w1", w1);
                         in.w2 = capi::ScaledOf(add, "w2", w2);
                         in.bias1 = add.OptionalOperand("bias1", given.bias1);
                         in.bias2 = add.OptionalOperand("bias2", given.bias2);
                         const auto act = capi::ActivationOf(add, given.activation);
                         return add.Add(sinter::AddScaledFfn, in, false, spec, act,
                                        capi::AccumulateOf(given.flags));
                       });
}

sinter_status sinter_chain_add_scaled_gated_ffn(sinter_chain* chain, sinter_scaled a,
                                                sinter_scaled w_gate, sinter_scaled w_up,
                                                sinter_scaled w_down,
                                                const sinter_quantize_options* quantize,
                                                const sinter_gated_ffn_options* options,
                                                sinter_value* out_value, sinter_error** error) {
  return capi::AddWith(chain, "scaled_gated_ffn", options, SINTER_ACCUMULATE_FAST, out_value, error,
                       [&](capi::Adder& add, const auto& given) -> Result {
                         SINTER_ASSIGN_OR_RETURN(const auto spec, capi::SpecOf(add, quantize));
                         capi::RequireOi(add, given.layout);
                         sinter::ScaledFfnOperands in;
                         in.a = capi::ScaledOf(add, "a", a);
                         in.w1 = capi::ScaledOf(add, "w_gate", w_gate);
                         in.w_up = capi::ScaledOf(add, "w_up", w_up);
                         in.w2 = capi::ScaledOf(add, "w_down", w_down);
                         in.bias1 = add.OptionalOperand("bias_gate", given.bias_gate);
                         in.bias_up = add.OptionalOperand("bias_up", given.bias_up);
                         in.bias2 = add.OptionalOperand("bias2", given.bias2);
                         const auto act = capi::ActivationOf(add, given.activation);
                         return add.Add(sinter::AddScaledFfn, in, true, spec, act,
                                        capi::AccumulateOf(given.flags));
                       });
}

sinter_status sinter_chain_add_scaled_grouped_matmul(sinter_chain* chain, sinter_scaled a,
                                                     sinter_scaled w, sinter_value ids,
                                                     const sinter_matmul_options* options,
                                                     sinter_value* out_value,
                                                     sinter_error** error) {
  return capi::AddValue(
      chain, "scaled_grouped_matmul", out_value, error, [&](capi::Adder& add) -> Result {
        add.Keep(capi::ReadOptions(options, "scaled_grouped_matmul", SINTER_MATMUL_TRANSPOSE_B)
                     .status());
        const sinter::Scaled va = capi::ScaledOf(add, "a", a), vw = capi::ScaledOf(add, "w", w);
        const ValueId vids = add.Operand("ids", ids);
        SINTER_RETURN_IF_ERROR(add.status());
        return add.builder().ScaledGroupedMatmul(va.codes, vw.codes, vids, va.scale, vw.scale);
      });
}

sinter_status sinter_chain_add_scaled_grouped_gated_ffn(
    sinter_chain* chain, sinter_scaled a, sinter_value ids, sinter_value weights, sinter_scaled w1,
    sinter_scaled w2, const sinter_quantize_options* quantize,
    const sinter_grouped_gated_ffn_options* options, sinter_value* out_value,
    sinter_error** error) {
  return capi::AddWith(
      chain, "scaled_grouped_gated_ffn", options, capi::kGateOrders, out_value, error,
      [&](capi::Adder& add, const auto& given) -> Result {
        SINTER_ASSIGN_OR_RETURN(const auto spec, capi::SpecOf(add, quantize));
        capi::RequireOi(add, given.layout);
        sinter::ScaledGroupedFfnOperands in;
        in.a = capi::ScaledOf(add, "a", a);
        in.ids = add.Operand("ids", ids);
        in.weights = add.Operand("weights", weights);
        in.w1 = capi::ScaledOf(add, "w1", w1);
        in.w2 = capi::ScaledOf(add, "w2", w2);
        for (const auto& [field, bias] :
             {std::pair("bias1", given.bias1), std::pair("bias2", given.bias2)}) {
          add.Require(bias == SINTER_NO_VALUE, field, "given", "SINTER_NO_VALUE",
                      ": experts of 8 bits ", "have no biases");
        }
        for (const auto& [field, value, none] :
             {std::tuple("alpha", given.alpha, 1), std::tuple("beta", given.beta, 0),
              std::tuple("limit", given.limit, 0)}) {
          add.Require(value == 0 || value == none, field, value, none,
                      ": experts of 8 bits compute only act(gate) * up");
        }
        const auto act = capi::ActivationOf(add, given.activation);
        const auto order = capi::OrderOf(add, given.flags);
        return add.Add(sinter::AddScaledGroupedGatedFfn, in, spec, act, order);
      });
}

}  // extern "C"
