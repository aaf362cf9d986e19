// sinter_chain_add_*: the composites.
#include "src/capi/adder.h"
#include "src/capi/composite_options.h"
#include "src/chain/composites.h"
#include "src/chain/defaults.h"

namespace capi = sinter::capi;
using sinter::ValueId;
using Result = absl::StatusOr<ValueId>;

namespace {

sinter::Layout LayoutOf(capi::Adder& add, sinter_layout value) {
  add.Require(value >= 0 && value <= SINTER_LAYOUT_IO,
              absl::StrCat("layout is ", value, ", must be SINTER_LAYOUT_OI or SINTER_LAYOUT_IO"));
  if (value == 0) return sinter::kDefaultLayout.value;
  return value == SINTER_LAYOUT_IO ? sinter::Layout::kIO : sinter::Layout::kOI;
}

static_assert(static_cast<sinter_activation>(sinter::kDefaultActivation.value) == 0,
              "the field is the activation itself, so its 0 must be the default");

}  // namespace

extern "C" {

sinter_status sinter_chain_add_activation(sinter_chain* chain, sinter_activation activation,
                                          sinter_value x, sinter_value* out_value,
                                          sinter_error** error) {
  return capi::AddValue(chain, "activation", out_value, error, [&](capi::Adder& add) -> Result {
    const sinter::Activation act = capi::ActivationOf(add, activation);
    const ValueId vx = add.Operand("x", x);
    SINTER_RETURN_IF_ERROR(add.status());
    return sinter::AddActivation(add.builder(), act, vx);
  });
}

sinter_status sinter_chain_add_softplus(sinter_chain* chain, sinter_value x,
                                        sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "softplus", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vx = add.Operand("x", x);
    SINTER_RETURN_IF_ERROR(add.status());
    return sinter::AddSoftplus(add.builder(), vx);
  });
}

sinter_status sinter_chain_add_clamp(sinter_chain* chain, sinter_value x, double min, double max,
                                     sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "clamp", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vx = add.Operand("x", x);
    SINTER_RETURN_IF_ERROR(add.status());
    return sinter::AddClamp(add.builder(), vx, min, max);
  });
}

sinter_status sinter_chain_add_swiglu(sinter_chain* chain, sinter_value gate, sinter_value up,
                                      sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "swiglu", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vg = add.Operand("gate", gate), vu = add.Operand("up", up);
    SINTER_RETURN_IF_ERROR(add.status());
    return sinter::AddSwiglu(add.builder(), vg, vu);
  });
}

sinter_status sinter_chain_add_softmax(sinter_chain* chain, sinter_value x, int32_t axis,
                                       const sinter_softmax_options* options,
                                       sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "softmax", out_value, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto given, capi::ReadOptions(options, "softmax", 0));
    add.Keep(capi::CheckReserved(given.reserved, "softmax"));
    const ValueId vx = add.Operand("x", x), mask = add.OptionalOperand("mask", given.mask);
    SINTER_RETURN_IF_ERROR(add.status());
    const double scale = capi::NumberOf(given.scale, sinter::kDefaultSoftmaxScale);
    return sinter::AddSoftmax(add.builder(), vx, axis, scale, mask);
  });
}

sinter_status sinter_chain_add_layernorm(sinter_chain* chain, sinter_value x,
                                         const sinter_norm_options* options,
                                         sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "layernorm", out_value, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto given, capi::ReadOptions(options, "layernorm", 0));
    const ValueId vx = add.Operand("x", x), gamma = add.OptionalOperand("gamma", given.gamma);
    const ValueId beta = add.OptionalOperand("beta", given.beta);
    SINTER_RETURN_IF_ERROR(add.status());
    return sinter::AddLayerNorm(
        add.builder(), vx, capi::NumberOf(given.eps, sinter::kDefaultLayerNormEps), gamma, beta);
  });
}

sinter_status sinter_chain_add_rmsnorm(sinter_chain* chain, sinter_value x,
                                       const sinter_norm_options* options, sinter_value* out_value,
                                       sinter_error** error) {
  return capi::AddValue(chain, "rmsnorm", out_value, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto given, capi::ReadOptions(options, "rmsnorm", 0));
    add.Require(given.beta == SINTER_NO_VALUE, "beta is given: rmsnorm has none");
    const ValueId vx = add.Operand("x", x), gamma = add.OptionalOperand("gamma", given.gamma);
    SINTER_RETURN_IF_ERROR(add.status());
    return sinter::AddRmsNorm(add.builder(), vx,
                              capi::NumberOf(given.eps, sinter::kDefaultRmsNormEps), gamma);
  });
}

sinter_status sinter_chain_add_rope(sinter_chain* chain, sinter_value x, sinter_value cos,
                                    sinter_value sin, sinter_value* out_value,
                                    sinter_error** error) {
  return capi::AddValue(chain, "rope", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vx = add.Operand("x", x);
    const ValueId vc = add.Operand("cos", cos), vs = add.Operand("sin", sin);
    SINTER_RETURN_IF_ERROR(add.status());
    return sinter::AddRope(add.builder(), vx, vc, vs);
  });
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
  return capi::AddValue(chain, "gru_cell", out_value, error, [&](capi::Adder& add) -> Result {
    const ValueId vx = add.Operand("xg", xg), vg = add.Operand("hg", hg);
    const ValueId vh = add.Operand("h", h);
    SINTER_RETURN_IF_ERROR(add.status());
    return sinter::AddGruCell(add.builder(), vx, vg, vh);
  });
}

sinter_status sinter_chain_add_linear(sinter_chain* chain, sinter_value x, sinter_value w,
                                      const sinter_linear_options* options, sinter_value* out_value,
                                      sinter_error** error) {
  return capi::AddValue(chain, "linear", out_value, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto given, capi::ReadOptions(options, "linear", 0));
    add.Keep(capi::CheckReserved(given.reserved, "linear"));
    const ValueId vx = add.Operand("x", x), vw = add.Operand("w", w);
    const ValueId bias = add.OptionalOperand("bias", given.bias);
    const auto layout = LayoutOf(add, given.layout);
    const auto act = capi::ActivationOf(add, given.activation);
    SINTER_RETURN_IF_ERROR(add.status());
    return sinter::AddLinear(add.builder(), vx, vw, bias, layout, act);
  });
}

sinter_status sinter_chain_add_gemm_chain(sinter_chain* chain, sinter_value a, sinter_value w1,
                                          sinter_value w2, const sinter_gemm_chain_options* options,
                                          sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "gemm_chain", out_value, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto given, capi::ReadOptions(options, "gemm_chain", 0));
    sinter::GemmChainOperands in;
    in.a = add.Operand("a", a);
    in.w1 = add.Operand("w1", w1);
    in.w2 = add.Operand("w2", w2);
    in.bias1 = add.OptionalOperand("bias1", given.bias1);
    in.bias2 = add.OptionalOperand("bias2", given.bias2);
    const auto layout = LayoutOf(add, given.layout);
    const auto act = capi::ActivationOf(add, given.activation);
    SINTER_RETURN_IF_ERROR(add.status());
    return sinter::AddGemmChain(add.builder(), in, act, layout);
  });
}

sinter_status sinter_chain_add_gated_ffn(sinter_chain* chain, sinter_value a, sinter_value w_gate,
                                         sinter_value w_up, sinter_value w_down,
                                         const sinter_gated_ffn_options* options,
                                         sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "gated_ffn", out_value, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto given, capi::ReadOptions(options, "gated_ffn", 0));
    add.Keep(capi::CheckReserved(given.reserved, "gated_ffn"));
    sinter::GatedFfnOperands in;
    in.a = add.Operand("a", a);
    in.w_gate = add.Operand("w_gate", w_gate);
    in.w_up = add.Operand("w_up", w_up);
    in.w_down = add.Operand("w_down", w_down);
    in.bias_gate = add.OptionalOperand("bias_gate", given.bias_gate);
    in.bias_up = add.OptionalOperand("bias_up", given.bias_up);
    in.bias2 = add.OptionalOperand("bias2", given.bias2);
    const auto layout = LayoutOf(add, given.layout);
    const auto act = capi::ActivationOf(add, given.activation);
    SINTER_RETURN_IF_ERROR(add.status());
    return sinter::AddGatedFfn(add.builder(), in, act, layout);
  });
}

}  // extern "C"
