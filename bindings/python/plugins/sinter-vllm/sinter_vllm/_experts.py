"""Computes vLLM's mixtures of experts: unquantised ones, and those of e4m3 with a scale for 128 x 128 of a matrix and for 128 of a row.

vLLM computes them in its own operator, which calls ``TritonExperts.apply`` with the ids and weights of its router. vLLM keeps the rest: a
gather over GPUs, shared experts, the sum over GPUs. So each call, and each capture of a graph, decides which of both computes.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable

from ._guard import Switch

#: The arguments of a call that are read here; only vLLM uses any others.
_ARGUMENTS = (
    "output", "hidden_states", "w1", "w2", "topk_weights", "topk_ids", "activation", "expert_map", "a1q_scale", "a2_scale",
    "apply_router_weight_on_input",
)  # fmt: skip


def watch(servers: Any, log: str) -> None:
    """Makes plans compute experts that fit, from now on. `log`: the logger that reports the first ones of a shape."""
    try:
        from vllm.model_executor.layers.fused_moe import TritonExperts
    except ImportError as error:
        servers.stay_away("vLLM's experts", str(error))
        return
    own: Callable[..., Any] = TritonExperts.apply
    if getattr(own, "is_sinters", False):
        return
    parameters = list(inspect.signature(own).parameters)
    if not set(_ARGUMENTS) <= set(parameters):
        servers.stay_away("vLLM's experts", "their apply takes other arguments")
        return
    said: "set[Any]" = set()
    switch = Switch(servers, "vLLM's experts")

    def apply(self: Any, *arguments: Any, **named: Any) -> Any:
        if type(self) is not TritonExperts or not switch(lambda: computed(self, {**dict(zip(parameters[1:], arguments)), **named})):
            return own(self, *arguments, **named)
        return None

    def computed(self: Any, given: "dict[str, Any]") -> bool:
        """Whether a plan computes the call. If it fails halfway, vLLM writes the whole result."""
        if reason_against(self, given):
            return False
        x, w13, w2 = given["hidden_states"], given["w1"], given["w2"]
        scales = None if given["a1q_scale"] is None else servers.Scales(self.w1_scale, self.w2_scale, given["a1q_scale"])
        if servers.experts(x, given["topk_ids"], given["topk_weights"], w13, w2, out=given["output"], scales=scales) is None:
            return False
        if not hasattr(self, "sinter_taken"):
            self.sinter_taken = True
            see(w13, w2, scales)
        return True

    def see(w13: Any, w2: Any, scales: Any) -> None:
        shape, codes = (tuple(w13.shape), tuple(w2.shape), w13.dtype), "" if scales is None else " of e4m3"
        what = f"vLLM's experts, {w13.shape[0]} of {w2.shape[2]} x {w13.shape[2]}{codes}"
        servers.take_once(said, shape, log, what, servers.EXPERTS_ROWS)

    apply.is_sinters = True  # type: ignore[attr-defined]
    TritonExperts.apply = apply


def reason_against(experts: Any, given: "dict[str, Any]") -> str:
    """Why vLLM computes a call; "" if a plan may. `given`: its arguments."""
    if getattr(experts, "quant_dtype", None) is not None or given["a1q_scale"] is not None:
        reason = _reason_against_codes(experts, given)
        if reason:
            return reason
    if getattr(experts, "w1_bias", None) is not None or getattr(experts, "w2_bias", None) is not None:
        return "they have biases"
    if getattr(given["activation"], "value", given["activation"]) != "silu":
        return "their activation is not SiLU"
    if _bounded_or_scaled(experts):
        return "their SiLU is bounded or scaled"
    if any(name in vars(experts) for name in ("activation", "moe_sum")):
        return "their activation or their sum is one of their own"
    if given["apply_router_weight_on_input"]:
        return "weights multiply the rows"
    if given["expert_map"] is not None:
        return "experts are on several GPUs"
    if getattr(experts, "_lora_context", None) is not None:
        return "LoRA adds to them"
    return ""


def _reason_against_codes(experts: Any, given: "dict[str, Any]") -> str:
    """Why vLLM computes quantised experts; "" for e4m3 with block scales, whose rows vLLM has quantised before."""
    config = experts.quant_config
    if not getattr(config, "use_fp8_w8a8", False):
        return "they are quantised to something else than e4m3, rows and matrices"
    blocks = getattr(config, "block_shape", None)
    if blocks is None or list(blocks) != [128, 128]:
        return f"their scales are of {'rows or whole matrices' if blocks is None else f'blocks {list(blocks)}'}, not of blocks [128, 128]"
    if given["a1q_scale"] is None or experts.w1_scale is None or experts.w2_scale is None:
        return "rows or matrices come without scales"
    if given["a2_scale"] is not None:
        return "what is between their products has a scale given"
    if getattr(experts, "quantization_emulation", False):
        return "their quantisation is emulated"
    return ""


def _bounded_or_scaled(experts: Any) -> bool:
    """Whether SiLU is not plain, by the quantisation's configuration or by vLLM's combination of it with the model's. Some versions keep that
    combination in ``activation_config``, others only in ``moe_config``."""
    if any(getattr(experts.quant_config, f"gemm1_{name}", None) is not None for name in ("alpha", "beta", "clamp_limit")):
        return True
    config = getattr(experts, "activation_config", None)
    if config is None:
        return getattr(getattr(experts, "moe_config", None), "swiglu_limit", None) is not None
    plain = {"clamp_limit": (None,), "alpha": (None, 1.0), "beta": (None, 0.0)}
    return any(getattr(config, name, None) not in values for name, values in plain.items())
