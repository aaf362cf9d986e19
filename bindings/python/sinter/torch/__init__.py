"""Sinter in torch: operators under ``torch.ops.sinter``, and models whose MLPs use them.

    import sinter.torch
    sinter.torch.replace_mlp(model)                                  # transformers' Llama, Qwen3
    sinter.torch.prepare_model(model, sizes=[1, 8, 32, 128])         # before a CUDA graph is captured
    layer = sinter.torch.BetweenAttentions(..)                       # of a model loop of one's own
    model = torch.compile(model, backend="sinter")                   # any model
    model.set_experts_implementation("sinter")                       # transformers' mixtures of experts

The import registers operators and opens no driver. A context is made for each device when the first plan is needed,
and not at all in the parent of a fork that does not compute.
"""

from __future__ import annotations

from typing import Any

from .runtime import run_chain, verify  # noqa: F401
from .runtime.adjacent_weights import lay_beside
from .runtime.experts import experts
from .runtime.gated_mlp import gated_mlp, gated_mlp_split
from .runtime.registered_chain import register_chain, run
from .runtime.run_chain import graph_counts
from .runtime.store import configure, counts, reset, use_context
from .serve import between_op  # noqa: F401
from .serve import transformers
from .serve.between import BetweenAttentions
from .serve.gated_mlps import SinterMLP, prepare_model, replace_mlp, restore_mlp
from .serve.pack_four_bits import PackedWeights, pack_four_bits

__all__ = [
    "BetweenAttentions",
    "PackedWeights",
    "SinterMLP",
    "configure",
    "counts",
    "experts",
    "explain",
    "gated_mlp",
    "gated_mlp_split",
    "graph_counts",
    "lay_beside",
    "pack_four_bits",
    "prepare_model",
    "register_chain",
    "replace_mlp",
    "reset",
    "restore_mlp",
    "run",
    "sinter_backend",
    "use_context",
]

transformers.register_when_loaded()


def __getattr__(name: str) -> Any:
    """Imports the names that need torch's compiler when they are asked for, because that import takes seconds."""
    if name == "sinter_backend":
        from .backend import sinter_backend

        return sinter_backend
    if name == "explain":
        from .backend.explain import explain

        return explain
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
