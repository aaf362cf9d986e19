"""Computes vLLM's decoder layers: the layers between two attentions as one plan.

The layers of a model are linked when it is first called, after weights and LoRA adapters are loaded. A linked layer computes from
its attention's result to the next layer's queries, keys and values. It passes these and the residual stream to the next layer. vLLM
computes the first layer's queries, keys and values, and the last layer's MLP. It also computes layers with more rows than plans are
made for: in compiled graphs (`_prefill`), or else by the modules themselves. Layers of codes are linked in the same way (`_codes`). If a
drafting model asks for states between layers, they are the plans' residual streams (`_draft_states`).
"""

from __future__ import annotations

import inspect
from typing import Any, List, Tuple

import torch

from . import _codes, _draft_states, _ranks

_LAYER_ARGUMENTS = ["self", "positions", "hidden_states", "residual"]
_ATTENTION_ARGUMENTS = ["self", "positions", "hidden_states"]


class Passed(torch.nn.Module):
    """Replaces a projection of attention that a plan computes: returns its input. Keeps weight and scales under their names."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        self.replaced = (linear,)  # in a tuple, so that torch does not register it
        for name, parameter in linear.named_parameters(recurse=False):
            self.register_parameter(name, parameter)

    def forward(self, x: torch.Tensor) -> "tuple[torch.Tensor, None]":
        return x, None


def quantizer_of(model: Any, servers: Any) -> Tuple[str, str]:
    """How the linear layers of a model are scaled, "" if they are not quantised, and why they cannot be linked."""
    from vllm.model_executor.layers.linear import UnquantizedLinearMethod

    found = set()
    for layer in model.layers:
        for name, linear in _linears(layer):
            if type(linear.quant_method) is UnquantizedLinearMethod:
                found.add("")
                continue
            quantizer, reason = _codes.quantizer_of(name, linear, servers)
            if reason:
                return "", reason
            found.add(quantizer)
    if len(found) > 1:
        return "", f"its layers are quantised in several ways: {', '.join(sorted(one or 'not at all' for one in found))}"
    return (found or {""}).pop(), ""


def _linears(layer: Any) -> "List[Tuple[str, Any]]":
    """The quantisable linear layers of a decoder layer, each with its name. A plan computes all of them for each linked layer."""
    attention, mlp = layer.self_attn, layer.mlp
    named = ("qkv_proj", attention), ("o_proj", attention), ("gate_up_proj", mlp), ("down_proj", mlp)
    return [(name, getattr(module, name)) for name, module in named]


def reason_against(model: Any, servers: Any, quantizer: str = "") -> str:
    """Why vLLM keeps computing the model's layers; "" if they can be linked. `quantizer`: the result of ``quantizer_of``."""
    from vllm.model_executor.layers.layernorm import RMSNorm
    from vllm.model_executor.layers.linear import (
        MergedColumnParallelLinear,
        QKVParallelLinear,
        RowParallelLinear,
        UnquantizedLinearMethod,
    )

    layers = list(model.layers)
    if _draft_states.reason_against(model):
        return _draft_states.reason_against(model)
    if len(layers) < 2 or len({type(layer) for layer in layers}) != 1:
        return "its layers are not all alike"
    attention = type(layers[0].self_attn)
    for kind, arguments in ((type(layers[0]), _LAYER_ARGUMENTS), (attention, _ATTENTION_ARGUMENTS)):
        if list(inspect.signature(kind.forward).parameters) != arguments:
            return f"the forward of {kind.__name__} takes other arguments"
    kinds = QKVParallelLinear, RowParallelLinear, MergedColumnParallelLinear, RowParallelLinear
    for layer in layers:
        for (name, linear), kind in zip(_linears(layer), kinds):
            plain = None if quantizer else UnquantizedLinearMethod
            reason: str = servers.reason_against_linear(name, linear, kind, plain, split=not quantizer)
            if not reason and quantizer:
                reason = _codes.reason_against(name, linear, quantizer, servers, layer.input_layernorm.weight.dtype)
            if reason:
                return reason
        if not quantizer:
            reason = servers.reason_against(layer.mlp, kinds[2:], UnquantizedLinearMethod, split=True)
            if reason:
                return reason
        for linear in (layer.self_attn.o_proj, layer.mlp.down_proj):
            if servers.is_split(linear) != _ranks.sums(linear) or _ranks.size_of(linear) != _ranks.size_of(layers[0].mlp.down_proj):
                return "its layers are split over GPUs in several ways"
        for norm in (layer.input_layernorm, layer.post_attention_layernorm):
            if type(norm) is not RMSNorm or not norm.has_weight or norm.variance_size_override is not None:
                return "a norm is not a plain RMSNorm"
            if norm.weight.dtype != (layers[0].input_layernorm if quantizer else layer.mlp.down_proj).weight.dtype:
                return f"a norm's weight is {norm.weight.dtype}"
            if norm.variance_epsilon != layers[0].input_layernorm.variance_epsilon:
                return "norms differ in epsilon"
            if not 0 < norm.variance_epsilon <= 1:
                return f"norms have epsilon {norm.variance_epsilon}"
    return ""


def weights_of(layer: Any, after: Any, quantizer: str = "") -> "tuple[List[torch.Tensor], float]":
    """The weights between the attentions of two layers, in the operator's order, and the norms' epsilon."""
    norm = layer.post_attention_layernorm
    linears = [layer.self_attn.o_proj, layer.mlp.gate_up_proj, layer.mlp.down_proj, after.self_attn.qkv_proj]
    matrices = [_codes.matrix_of(linear, quantizer) if quantizer else linear.weight for linear in linears]
    o, gate_up, down, qkv = matrices
    return [o, norm.weight, gate_up, down, after.input_layernorm.weight, qkv], norm.variance_epsilon


def planned(layers: "List[Any]", folded: bool, group: str, servers: Any, quantizer: str = "") -> bool:
    """Whether each layer that will be linked has its plans. Prepares them. `group`: the operator's; its ranks get the same answer."""
    codes = {"quantizer": quantizer} if quantizer else {}
    return all(servers.planned(*weights_of(*pair, quantizer), folded, group, **codes) for pair in zip(layers, layers[1:]))


def link(layers: "List[Any]", servers: Any, folded: bool = False, group: str = "", quantizer: str = "", chosen: bool = False) -> None:
    """Links each layer of `layers` to pass the next one its queries, keys and values. `folded`, `group` and `quantizer`: see the operator.
    `chosen`: each compiled graph chooses between the plan and vLLM's modules (`_prefill`)."""
    for layer, after in zip(layers, layers[1:]):
        own = layer.self_attn.o_proj, after.self_attn.qkv_proj
        # In a tuple, so that torch does not register the next layer as a child of this one.
        layer.sinter_after = (after, None if quantizer else own[1].weight)
        layer.sinter_o = (None if quantizer else own[0].weight,)
        layer.sinter_folded, layer.sinter_group, layer.sinter_quantizer, layer.sinter_chosen = folded, group, quantizer, chosen
        if quantizer:
            layer.sinter_own = own
            linears = [own[0], layer.mlp.gate_up_proj, layer.mlp.down_proj, own[1]]
            layer.sinter_codes, layer.sinter_scales = _codes.take(linears, quantizer, servers)
    for layer, after in zip(layers, layers[1:]):
        layer.self_attn.o_proj = Passed(layer.self_attn.o_proj)
        after.self_attn.qkv_proj = Passed(after.self_attn.qkv_proj)
        after.sinter_behind = True


def unlink(layers: "List[Any]") -> None:
    """Undoes `link`, also one that ended early. Folded norms stay folded, which vLLM's modules compute alike."""
    for layer in layers:
        attention = getattr(layer, "self_attn", None)
        for name in ("o_proj", "qkv_proj"):
            linear = getattr(attention, name, None)
            if isinstance(linear, Passed):
                setattr(attention, name, linear.replaced[0])
        for name in [name for name in vars(layer) if name.startswith("sinter_")]:
            delattr(layer, name)


def replace(kind: type, servers: Any) -> None:
    """Gives layers of a class a forward that follows links."""
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
        stream, hidden_states = _by_operator(self, attended, residual)
        if self.sinter_chosen and torch.compiler.is_compiling():
            # A copy, because vLLM's norm may add to the residual in place.
            own_states, own_stream = _by_modules(self, attended, residual.clone())
            stream, hidden_states = torch.ops.sinter.plan_or_server([stream, hidden_states], [own_stream, own_states])
        return hidden_states, stream

    forward.is_sinters = True  # type: ignore[attr-defined]
    kind.forward = forward  # type: ignore[attr-defined]


def _by_operator(layer: Any, attended: torch.Tensor, residual: torch.Tensor) -> Any:
    """The residual stream, and the next layer's queries, keys and values, computed by a plan."""
    after, qkv = layer.sinter_after
    first, second = layer.post_attention_layernorm, after.input_layernorm
    between = torch.ops.sinter.between_attentions
    if layer.sinter_quantizer:
        o, gate_up, down, qkv = layer.sinter_codes
        weights = [o, first.weight, gate_up, down, second.weight, qkv]
        scales = list(layer.sinter_scales)
        return between(attended, residual, weights, first.variance_epsilon, False, layer.sinter_group, scales, layer.sinter_quantizer)
    weights = [layer.sinter_o[0], first.weight, layer.mlp.gate_up_proj.weight, layer.mlp.down_proj.weight, second.weight, qkv]
    return between(attended, residual, weights, first.variance_epsilon, layer.sinter_folded, layer.sinter_group)


def _by_modules(layer: Any, attended: torch.Tensor, residual: torch.Tensor) -> Any:
    """The next layer's queries, keys and values, and the residual stream, computed by vLLM's modules one after another."""
    after, qkv = layer.sinter_after
    projected = _project(layer, 0, attended, layer.sinter_o[0])
    if layer.sinter_group:
        projected = _ranks.all_reduce(projected)
    hidden_states, residual = layer.post_attention_layernorm(projected, residual)
    hidden_states, residual = after.input_layernorm(layer.mlp(hidden_states), residual)
    return _project(layer, 1, hidden_states, qkv), residual


def _project(layer: Any, which: int, x: torch.Tensor, weight: Any) -> torch.Tensor:
    """A product by o (0) or by the next layer's matrix of queries, keys and values (1)."""
    if layer.sinter_quantizer:
        return _codes.own(layer.sinter_own[which], x)
    return torch.nn.functional.linear(x, weight)
