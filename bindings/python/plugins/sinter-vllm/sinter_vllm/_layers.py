"""vLLM's decoder layers by Sinter: all that lies between two attentions as one plan.

The layers of a model are linked when it is first called, behind the loading of weights and of LoRA adapters. A linked layer
computes from its attention's result to the next layer's queries, keys and values, so what goes from layer to layer is these
and the residual stream. The first layer's queries, keys and values, and the last layer's MLP, are vLLM's own. So is a layer
of more rows than plans are made for: compiled as `_prefill` says, or else by the modules themselves.
"""

from __future__ import annotations

import inspect
from typing import Any, List

import torch

from . import _ranks

_LAYER_ARGUMENTS = ["self", "positions", "hidden_states", "residual"]
_ATTENTION_ARGUMENTS = ["self", "positions", "hidden_states"]


class Passed(torch.nn.Module):
    """Stands for a projection of attention that a plan computes: gives on what it is given. Keeps the weight under its name."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.weight = linear.weight

    def forward(self, x: torch.Tensor) -> "tuple[torch.Tensor, None]":
        return x, None


def reason_against(model: Any, servers: Any) -> str:
    """Why the model's layers stay vLLM's own; "" when they can be linked."""
    from vllm.model_executor.layers.layernorm import RMSNorm
    from vllm.model_executor.layers.linear import (
        MergedColumnParallelLinear,
        QKVParallelLinear,
        RowParallelLinear,
        UnquantizedLinearMethod,
    )

    layers = list(model.layers)
    if getattr(model, "aux_hidden_state_layers", ()):
        return "states between layers are asked for"
    if len(layers) < 2 or len({type(layer) for layer in layers}) != 1:
        return "its layers are not all alike"
    attention = type(layers[0].self_attn)
    for kind, arguments in ((type(layers[0]), _LAYER_ARGUMENTS), (attention, _ATTENTION_ARGUMENTS)):
        if list(inspect.signature(kind.forward).parameters) != arguments:
            return f"the forward of {kind.__name__} takes other arguments"
    for layer in layers:
        for name, kind in (("qkv_proj", QKVParallelLinear), ("o_proj", RowParallelLinear)):
            reason = servers.reason_against_linear(name, getattr(layer.self_attn, name, None), kind, UnquantizedLinearMethod, split=True)
            if reason:
                return reason
        reason = servers.reason_against(layer.mlp, (MergedColumnParallelLinear, RowParallelLinear), UnquantizedLinearMethod, split=True)
        if reason:
            return reason
        for linear in (layer.self_attn.o_proj, layer.mlp.down_proj):
            if servers.is_split(linear) != _ranks.sums(linear) or _ranks.size_of(linear) != _ranks.size_of(layers[0].mlp.down_proj):
                return "its layers are split over GPUs in several ways"
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            if type(norm) is not RMSNorm or not norm.has_weight or norm.variance_size_override is not None:
                return "a norm is not a plain RMSNorm"
            if norm.weight.dtype != layer.mlp.down_proj.weight.dtype:
                return f"a norm's weight is {norm.weight.dtype}"
            if norm.variance_epsilon != layers[0].input_layernorm.variance_epsilon:
                return "norms differ in epsilon"
            if not 0 < norm.variance_epsilon <= 1:
                return f"norms have epsilon {norm.variance_epsilon}"
    return ""


def weights_of(layer: Any, after: Any) -> "tuple[List[torch.Tensor], float]":
    """The weights between the attentions of two layers, as the operator takes them, and the norms' epsilon."""
    norm = layer.post_attention_layernorm
    weights = [layer.self_attn.o_proj.weight, norm.weight, layer.mlp.gate_up_proj.weight, layer.mlp.down_proj.weight]
    return [*weights, after.input_layernorm.weight, after.self_attn.qkv_proj.weight], norm.variance_epsilon


def planned(layers: "List[Any]", folded: bool, group: str, servers: Any) -> bool:
    """Whether each layer that will be linked has its plans. Prepares them. `group`: as of the operator; its ranks get the same answer."""
    return all(servers.planned(*weights_of(*pair), folded, group) for pair in zip(layers, layers[1:]))


def link(layers: "List[Any]", folded: bool = False, group: str = "") -> None:
    """Each layer of `layers` hands to the next one its queries, keys and values. `folded`, `group`: as of the operator."""
    for layer, after in zip(layers, layers[1:]):
        # In a tuple, so that torch does not take the next layer for a part of this one.
        layer.sinter_after = (after, after.self_attn.qkv_proj.weight)
        layer.sinter_o = (layer.self_attn.o_proj.weight,)
        layer.sinter_folded, layer.sinter_group = folded, group
    for layer, after in zip(layers, layers[1:]):
        layer.self_attn.o_proj = Passed(layer.self_attn.o_proj)
        after.self_attn.qkv_proj = Passed(after.self_attn.qkv_proj)
        after.sinter_behind = True


def replace(kind: type, servers: Any) -> None:
    """Gives layers of a class a forward that knows of links."""
    own = kind.forward  # type: ignore[attr-defined]
    if getattr(own, "is_sinters", False):
        return

    def forward(self: Any, positions: Any, hidden_states: Any, residual: Any) -> Any:
        if not hasattr(self, "sinter_after") and not hasattr(self, "sinter_behind"):
            return own(self, positions, hidden_states, residual)
        if not hasattr(self, "sinter_behind"):  # the first
            if residual is None:
                residual = hidden_states
                hidden_states = self.input_layernorm(hidden_states)
            else:
                hidden_states, residual = self.input_layernorm(hidden_states, residual)
        attended = self.self_attn(positions=positions, hidden_states=hidden_states)
        if not hasattr(self, "sinter_after"):  # the last
            hidden_states, residual = self.post_attention_layernorm(attended, residual)
            return self.mlp(hidden_states), residual
        if not torch.compiler.is_compiling() and not servers.takes(attended.shape[0]):
            return _by_modules(self, attended, residual)
        after, qkv = self.sinter_after
        norm = self.post_attention_layernorm
        weights = [self.sinter_o[0], norm.weight, self.mlp.gate_up_proj.weight, self.mlp.down_proj.weight]
        weights += [after.input_layernorm.weight, qkv]
        stream, hidden_states = torch.ops.sinter.between_attentions(
            attended, residual, weights, norm.variance_epsilon, self.sinter_folded, self.sinter_group
        )
        return hidden_states, stream

    forward.is_sinters = True  # type: ignore[attr-defined]
    kind.forward = forward  # type: ignore[attr-defined]


def _by_modules(layer: Any, attended: torch.Tensor, residual: torch.Tensor) -> Any:
    """The next layer's queries, keys and values, and the residual stream, by vLLM's modules one after another."""
    after, qkv = layer.sinter_after
    linear = torch.nn.functional.linear
    projected = linear(attended, layer.sinter_o[0])
    if layer.sinter_group:
        projected = _ranks.all_reduce(projected)
    hidden_states, residual = layer.post_attention_layernorm(projected, residual)
    hidden_states, residual = after.input_layernorm(layer.mlp(hidden_states), residual)
    return linear(hidden_states, qkv), residual
