// sinter_chain_add_*: quantisation, and products of what is quantised.
#include "src/capi/adder.h"
#include "src/capi/composite_options.h"
#include "src/chain/composites.h"

namespace capi = sinter::capi;
using sinter::ValueId;
using Result = absl::StatusOr<ValueId>;

namespace {

sinter::Scaled ScaledOf(capi::Adder& add, const std::string& name, sinter_scaled value) {
  return {add.Operand("codes of " + name, value.codes),
          add.Operand("scale of " + name, value.scale)};
}

absl::StatusOr<sinter::QuantizeSpec> SpecOf(capi::Adder& add,
                                            const sinter_quantize_options* options) {
  SINTER_ASSIGN_OR_RETURN(const auto given,
                          capi::ReadOptions(options, "quantize", SINTER_QUANTIZE_UE8M0));
  SINTER_RETURN_IF_ERROR(capi::CheckReserved(given.reserved, "quantize"));
  sinter::QuantizeSpec spec;
  if (given.granularity != 0) {
    spec.granularity = static_cast<sinter::Granularity>(given.granularity);
  }
  if (given.codes != 0) spec.codes = add.Type(given.codes);
  spec.eps = capi::NumberOf(given.eps, sinter::kDefaultQuantizeEps);
  spec.upper_bound = given.upper_bound;
  spec.ue8m0 = (given.flags & SINTER_QUANTIZE_UE8M0) != 0;
  spec.scale = add.OptionalOperand("static_scale", given.static_scale);
  return spec;
}

void RequireOi(capi::Adder& add, sinter_layout layout) {
  add.Require(layout == 0 || layout == SINTER_LAYOUT_OI,
              absl::StrCat("layout is ", layout,
                           ", must be SINTER_LAYOUT_OI: 8-bit weights are "
                           "[out, in]"));
}

}  // namespace

extern "C" {

sinter_status sinter_chain_add_quantize(sinter_chain* chain, sinter_value x,
                                        const sinter_quantize_options* options,
                                        sinter_scaled* out_scaled, sinter_error** error) {
  sinter_value* codes = out_scaled == nullptr ? nullptr : &out_scaled->codes;
  return capi::AddValue(chain, "quantize", codes, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto spec, SpecOf(add, options));
    const ValueId vx = add.Operand("x", x);
    SINTER_RETURN_IF_ERROR(add.status());
    SINTER_ASSIGN_OR_RETURN(const auto scaled, sinter::AddQuantize(add.builder(), vx, spec));
    out_scaled->scale = scaled.scale + 1;
    return scaled.codes;
  });
}

sinter_status sinter_chain_add_scaled_matmul(sinter_chain* chain, sinter_scaled a, sinter_scaled w,
                                             const sinter_linear_options* options,
                                             sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(chain, "scaled_matmul", out_value, error, [&](capi::Adder& add) -> Result {
    SINTER_ASSIGN_OR_RETURN(const auto given,
                            capi::ReadOptions(options, "scaled_matmul", SINTER_ACCUMULATE_FAST));
    add.Keep(capi::CheckReserved(given.reserved, "scaled_matmul"));
    RequireOi(add, given.layout);
    const sinter::Scaled va = ScaledOf(add, "a", a), vw = ScaledOf(add, "w", w);
    const ValueId bias = add.OptionalOperand("bias", given.bias);
    const auto act = capi::ActivationOf(add, given.activation);
    SINTER_RETURN_IF_ERROR(add.status());
    return sinter::AddScaledLinear(add.builder(), va, vw, bias, act,
                                   capi::AccumulateOf(given.flags));
  });
}

sinter_status sinter_chain_add_scaled_gemm_chain(sinter_chain* chain, sinter_scaled a,
                                                 sinter_scaled w1, sinter_scaled w2,
                                                 const sinter_quantize_options* quantize,
                                                 const sinter_gemm_chain_options* options,
                                                 sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(
      chain, "scaled_gemm_chain", out_value, error, [&](capi::Adder& add) -> Result {
        SINTER_ASSIGN_OR_RETURN(const auto given, capi::ReadOptions(options, "scaled_gemm_chain",
                                                                    SINTER_ACCUMULATE_FAST));
        SINTER_ASSIGN_OR_RETURN(const auto spec, SpecOf(add, quantize));
        RequireOi(add, given.layout);
        sinter::ScaledFfnOperands in;
        in.a = ScaledOf(add, "a", a);
        in.w1 = ScaledOf(add, "w1", w1);
        in.w2 = ScaledOf(add, "w2", w2);
        in.bias1 = add.OptionalOperand("bias1", given.bias1);
        in.bias2 = add.OptionalOperand("bias2", given.bias2);
        const auto act = capi::ActivationOf(add, given.activation);
        SINTER_RETURN_IF_ERROR(add.status());
        return sinter::AddScaledFfn(add.builder(), in, false, spec, act,
                                    capi::AccumulateOf(given.flags));
      });
}

sinter_status sinter_chain_add_scaled_gated_ffn(sinter_chain* chain, sinter_scaled a,
                                                sinter_scaled w_gate, sinter_scaled w_up,
                                                sinter_scaled w_down,
                                                const sinter_quantize_options* quantize,
                                                const sinter_gated_ffn_options* options,
                                                sinter_value* out_value, sinter_error** error) {
  return capi::AddValue(
      chain, "scaled_gated_ffn", out_value, error, [&](capi::Adder& add) -> Result {
        SINTER_ASSIGN_OR_RETURN(const auto given, capi::ReadOptions(options, "scaled_gated_ffn",
                                                                    SINTER_ACCUMULATE_FAST));
        add.Keep(capi::CheckReserved(given.reserved, "scaled_gated_ffn"));
        SINTER_ASSIGN_OR_RETURN(const auto spec, SpecOf(add, quantize));
        RequireOi(add, given.layout);
        sinter::ScaledFfnOperands in;
        in.a = ScaledOf(add, "a", a);
        in.w1 = ScaledOf(add, "w_gate", w_gate);
        in.w_up = ScaledOf(add, "w_up", w_up);
        in.w2 = ScaledOf(add, "w_down", w_down);
        in.bias1 = add.OptionalOperand("bias_gate", given.bias_gate);
        in.bias_up = add.OptionalOperand("bias_up", given.bias_up);
        in.bias2 = add.OptionalOperand("bias2", given.bias2);
        const auto act = capi::ActivationOf(add, given.activation);
        SINTER_RETURN_IF_ERROR(add.status());
        return sinter::AddScaledFfn(add.builder(), in, true, spec, act,
                                    capi::AccumulateOf(given.flags));
      });
}

}  // extern "C"
