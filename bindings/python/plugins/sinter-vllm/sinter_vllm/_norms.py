"""Folds the norms of vLLM's linked layers into the matrices that follow them, so that products compute the norms.

A folded model computes the same, but its matrices differ from the checkpoint, and the plans read no norm: weights must not be loaded
again. So norms are only folded on request, and loading weights fails on a folded model.
"""

from __future__ import annotations

import os
from typing import Any, List

from . import _layers

VARIABLE = "SINTER_VLLM_FOLD"


def folds(model: Any, layers: "List[Any]", servers: Any) -> bool:
    """Whether to fold the norms of layers that will be linked: a plan would use it, and the numbers allow it."""
    refuses = getattr(getattr(model, "load_weights", None), "is_sinters", False)
    if not refuses or not wanted(model.vllm_config):
        return False
    pays: bool = servers.folding_pays(*_layers.weights_of(*layers[:2]))
    return pays and bool(servers.folds(_pairs(layers)))


def fold(model: Any, layers: "List[Any]", servers: Any) -> None:
    """Folds the norms, and makes the model refuse to load weights."""
    model.sinter_folded = True
    servers.fold(_pairs(layers))


def _pairs(layers: "List[Any]") -> List[Any]:
    """The norms between attentions, each with the matrix that follows it."""
    pairs = []
    for layer, after in zip(layers, layers[1:]):
        pairs.append((layer.post_attention_layernorm.weight, layer.mlp.gate_up_proj.weight))
        pairs.append((after.input_layernorm.weight, after.self_attn.qkv_proj.weight))
    return pairs


def wanted(config: Any) -> bool:
    """Whether SINTER_VLLM_FOLD is 1. False if vLLM's cache keys would not contain it."""
    known = isinstance(getattr(config, "additional_config", None), dict)
    return known and os.environ.get(VARIABLE, "") == "1"


def refuse_loading(model: type) -> None:
    """Makes folded models of a class refuse to load weights."""
    own: Any = getattr(model, "load_weights", None)
    if own is None or getattr(own, "is_sinters", False):
        return

    def load_weights(self: Any, *arguments: Any, **named: Any) -> Any:
        if getattr(self, "sinter_folded", False):
            raise RuntimeError(
                "sinter: weights cannot be loaded into this model: its norms are folded into the matrices behind them. "
                f"Start vLLM without {VARIABLE}=1 to load weights again"
            )
        return own(self, *arguments, **named)

    load_weights.is_sinters = True  # type: ignore[attr-defined]
    setattr(model, "load_weights", load_weights)
