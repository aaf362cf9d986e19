"""Computes the mixtures of experts of SGLang's Triton runner, on one GPU or split by their width, unquantised or of e4m3 with a scale for
128 x 128 of a matrix. For e4m3 the plan quantises the rows, with a scale for 128 of a row, as SGLang does.

SGLang keeps the router, shared experts and the sum over GPUs.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable

TARGET = "sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe.fused_experts"

#: Arguments of a call that must be left out, None or False.
_NONE = (
    "b1", "b2", "use_int8_w8a8", "use_int8_w8a16", "use_int4_w4a16", "per_channel_quant", "w1_zp", "w2_zp", "a1_scale", "a2_scale", "a1_q",
    "fuse_swiglu_interleaved",
)  # fmt: skip

#: Arguments of a call that are set for e4m3, in addition to the matrices.
_CODES = ("use_fp8_w8a8", "w1_scale", "w2_scale", "block_shape")


def hook(servers: Any, is_hopper: "Callable[[Any], bool]") -> Callable[..., Any]:
    """Computes experts around SGLang's function."""
    said: "set[Any]" = set()
    parameters: "list[str]" = []

    def fused_experts(own: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        import torch

        if torch.compiler.is_compiling():  # which of both computes is decided at each call
            return own(*arguments, **named)
        if not parameters:
            parameters.extend(inspect.signature(own).parameters)
        given = {**dict(zip(parameters, arguments)), **named}
        x, w13, w2 = (given.get(name) for name in ("hidden_states", "w1", "w2"))
        if reason_against(given) or not is_hopper(x):
            return own(*arguments, **named)
        weights, ids = given["topk_output"][:2]
        scales = servers.Scales(given["w1_scale"], given["w2_scale"]) if given.get("use_fp8_w8a8") else None
        y = servers.experts(x, ids, weights, w13, w2, scales=scales)
        if y is None:
            return own(*arguments, **named)
        see(given["moe_runner_config"], w13, w2)
        return y

    def see(config: Any, w13: Any, w2: Any) -> None:
        layer = getattr(config, "layer_id", None), w13.data_ptr()
        if layer in said:
            return
        said.add(layer)
        shape, codes = (tuple(w13.shape), tuple(w2.shape), w13.dtype), " of e4m3" if w13.dtype.itemsize == 1 else ""
        what = f"SGLang's experts, {w13.shape[0]} of {w2.shape[2]} x {w13.shape[2]}{codes}"
        servers.take_once(said, shape, "sinter", what, servers.EXPERTS_ROWS)

    return fused_experts


def reason_against(given: "dict[str, Any]") -> str:
    """Why SGLang computes a call; "" if a plan may. `given`: its arguments."""
    config, routed = given.get("moe_runner_config"), given.get("topk_output")
    if config is None or not isinstance(routed, tuple) or len(routed) < 2:
        return "its arguments are others"
    for name in _NONE:
        value = given.get(name)
        if value is not None and value is not False:
            return f"{name} is given"
    found = [name for name in _CODES if given.get(name) is not None and given.get(name) is not False]
    if found and (list(found) != list(_CODES) or list(given["block_shape"]) != [128, 128]):
        return f"{', '.join(found)} are given, and block_shape {given.get('block_shape')}: of codes there are those of e4m3 with blocks [128, 128]"
    if config.activation != "silu" or not config.is_gated:
        return "their activation is not SiLU"
    if any(getattr(config, name, None) is not None for name in ("gemm1_alpha", "gemm1_beta", "gemm1_clamp_limit", "swiglu_limit")):
        return "their SiLU is bounded or scaled"
    if config.apply_router_weight_on_input or config.no_combine:
        return "weights do not multiply the experts' results"
    if config.routed_scaling_factor not in (None, 1.0):
        return "the sum is scaled"
    if config.num_experts is None or config.num_experts != config.num_local_experts:
        return "experts are on several GPUs"
    return ""
