"""SGLang's unquantised mixtures of experts by Sinter: those that its Triton runner computes, on one GPU or split by their width.

The router, shared experts and the sum over GPUs stay SGLang's.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable

TARGET = "sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe.fused_experts"

#: Of a call, what must have been left out, or given as None or False.
_NONE = (
    "b1", "b2", "use_fp8_w8a8", "use_int8_w8a8", "use_int8_w8a16", "use_int4_w4a16", "w1_scale", "w2_scale", "a1_scale", "a2_scale",
    "block_shape", "a1_q", "fuse_swiglu_interleaved",
)  # fmt: skip


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
        y = servers.experts(x, ids, weights, w13, w2)
        if y is None:
            return own(*arguments, **named)
        see(given["moe_runner_config"], w13, w2)
        return y

    def see(config: Any, w13: Any, w2: Any) -> None:
        layer = getattr(config, "layer_id", None), w13.data_ptr()
        if layer in said:
            return
        shape = tuple(w13.shape), tuple(w2.shape), w13.dtype
        if shape in said:
            servers.count(1)
        else:
            servers.take("sinter", f"SGLang's experts, {w13.shape[0]} of {w2.shape[2]} x {w13.shape[2]}", 1, servers.EXPERTS_ROWS)
        said.update((layer, shape))

    return fused_experts


def reason_against(given: "dict[str, Any]") -> str:
    """Why SGLang computes a call; "" when a plan may. `given`: its arguments."""
    config, routed = given.get("moe_runner_config"), given.get("topk_output")
    if config is None or not isinstance(routed, tuple) or len(routed) < 2:
        return "its arguments are others"
    for name in _NONE:
        value = given.get(name)
        if value is not None and value is not False:
            return f"{name} is given"
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
