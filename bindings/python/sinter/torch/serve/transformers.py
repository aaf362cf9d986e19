"""Computes transformers' mixtures of experts: ``experts_implementation="sinter"``.

transformers 5 calls the experts of a model by the name that its config has. Importing ``sinter.torch`` adds a name without importing
transformers: the name is added when transformers is loaded.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import logging
import sys
from typing import Any, Callable, Optional, Sequence, Set, Tuple

import torch

from ..._error import Error
from ..runtime.experts import MOST_TOP, experts_line, extents_of, reason_against_experts
from .scaled_experts import Scales, launch_scaled_experts, reason_against_scaled_experts, scaled_experts_key, takes_rows

NAME = "sinter"
_REGISTRY = "transformers.integrations.moe"
#: The registry for experts of e4m3, which have separate implementations.
_REGISTRY_OF_CODES = "transformers.integrations.finegrained_fp8"
#: The activation by the class of transformers' module.
ACTIVATIONS = {"SiLU": "silu", "SiLUActivation": "silu", "GELUTanh": "gelu_tanh", "PytorchGELUTanh": "gelu_tanh"}

logger = logging.getLogger("sinter")

#: The reasons that were logged, by class.
_told: Set[Tuple[str, str]] = set()


def experts_forward(module: Any, hidden: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor) -> torch.Tensor:
    """The function that transformers calls: `module` holds the experts' matrices; hidden [rows, k]; ids and weights [rows, top]."""
    reason = _reason_against(module, hidden, top_k_index, top_k_weights)
    compiling = torch.compiler.is_compiling()
    if not reason:
        try:
            result: torch.Tensor = torch.ops.sinter.experts(
                hidden, top_k_index, top_k_weights, module.gate_up_proj, module.down_proj, ACTIVATIONS[type(module.act_fn).__name__],
                "io" if module.is_transposed else "oi", not compiling,
            )  # fmt: skip
            return result
        except Error as error:
            reason = str(error)
    if not compiling:
        _tell(type(module).__name__, reason)
    own: torch.Tensor = sys.modules[_REGISTRY].ALL_EXPERTS_FUNCTIONS["grouped_mm"](module, hidden, top_k_index, top_k_weights)
    return own


def _reason_against(module: Any, hidden: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> str:
    """Why transformers computes; "" if Sinter does."""
    if not module.has_gate:
        return "they have no gate"
    if module.has_bias:
        return "they have biases"
    if getattr(module, "has_post_expert_norm", False):
        return "a norm follows each expert"
    if not module.is_concatenated:
        return "gate and up are interleaved"
    if type(module)._apply_gate is not sys.modules[_REGISTRY]._default_apply_gate:
        return "their gate is one of their own"
    if type(module.act_fn).__name__ not in ACTIVATIONS:
        return f"their activation is {type(module.act_fn).__name__}"
    w1, w2 = module.gate_up_proj, module.down_proj
    if not all(type(w) in (torch.nn.Parameter, torch.Tensor) for w in (w1, w2)):
        return f"their matrices are a {type(w1).__name__} and a {type(w2).__name__}"
    reason = reason_against_experts(w1, w2, "io" if module.is_transposed else "oi")
    if reason:
        return reason
    if hidden.dim() != 2 or hidden.dtype != w1.dtype:
        return f"rows are {hidden.dtype} of {hidden.dim()} axes"
    if ids.dtype not in (torch.int32, torch.int64) or ids.dim() != 2 or ids.shape[1] > MOST_TOP or weights.shape != ids.shape:
        return f"ids are {ids.dtype} {tuple(ids.shape)}"
    if torch.is_grad_enabled() and any(t.requires_grad for t in (hidden, weights, w1, w2)):
        return "gradients are wanted"
    return ""


def codes_forward(module: Any, hidden: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor) -> torch.Tensor:
    """The function that transformers calls for experts of e4m3. In compiled models transformers' own run, because the choice is made at each call."""
    reason = "they are compiled" if torch.compiler.is_compiling() else _reason_against_codes(module, hidden, top_k_index, top_k_weights)
    if not reason:
        w1, w2, scales = module.gate_up_proj, module.down_proj, _scales_of(module)
        try:
            y = launch_scaled_experts(hidden, top_k_index, top_k_weights, w1, w2, scales, hidden.new_empty((len(hidden), w2.shape[1])), None)
            if y is not None:
                return y
            reason = "no plan for so many rows"
        except Error as error:
            reason = str(error)
    if not torch.compiler.is_compiling():
        _tell(type(module).__name__, reason)
    of_codes: Any = sys.modules[_REGISTRY_OF_CODES]
    own: torch.Tensor = of_codes.ALL_FP8_EXPERTS_FUNCTIONS["grouped_mm"](module, hidden, top_k_index, top_k_weights)
    return own


def _scales_of(module: Any) -> Scales:
    return Scales(module.gate_up_proj_scale_inv, module.down_proj_scale_inv)


def _reason_against_codes(module: Any, hidden: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor) -> str:
    """Why transformers computes experts of e4m3; "" if Sinter does."""
    if not module.has_gate or module.has_bias:
        return "they have no gate, or biases"
    if module.activation_scheme != "dynamic":
        return f"their rows are quantised by the scheme {module.activation_scheme!r}, not 'dynamic'"
    if module.block_size is None or tuple(module.block_size) != (128, 128):
        return f"their block_size is {module.block_size}, not (128, 128)"
    if type(module)._apply_gate is not sys.modules[_REGISTRY_OF_CODES].FP8Experts._apply_gate:
        return "their gate is one of their own"
    if any(getattr(module, name, None) is not None for name in ("swiglu_alpha", "limit", "gate_softcap")):
        return "their gate is bounded or scaled"
    if ACTIVATIONS.get(type(module.act_fn).__name__) != "silu":
        return f"their activation is {type(module.act_fn).__name__}, not SiLU"
    w1, w2 = module.gate_up_proj, module.down_proj
    reason = reason_against_scaled_experts(w1, w2, _scales_of(module))
    if reason:
        return reason
    if not takes_rows(hidden, None, w1.shape[2]):
        return f"rows are {hidden.dtype} {tuple(hidden.shape)}"
    if hidden.device.type not in ("cuda", "meta"):
        return f"rows are on {hidden.device}"
    scales = _scales_of(module)
    apart = [t.device for t in (w1, w2, scales.w13, scales.w2, ids, weights) if t.device != hidden.device]
    if apart and hidden.device.type != "meta":  # rows of a check ahead of calls have no memory
        return f"rows are on {hidden.device}, others on {apart[0]}"
    if ids.dtype not in (torch.int32, torch.int64) or ids.dim() != 2 or not 1 <= ids.shape[1] <= MOST_TOP or weights.shape != ids.shape:
        return f"ids are {ids.dtype} {tuple(ids.shape)}"
    if torch.is_grad_enabled() and any(t.requires_grad for t in (hidden, weights, w1, w2)):
        return "gradients are wanted"
    return ""


def line_of(module: Any) -> Optional[Tuple[str, torch.device]]:
    """The chain of a module whose experts Sinter computes, and their device; None for any other module."""
    config = getattr(module, "config", None)
    top = getattr(config, "num_experts_per_tok", None)
    if getattr(config, "_experts_implementation", None) != NAME or not hasattr(module, "has_gate") or not isinstance(top, int):
        return None
    if hasattr(module, "gate_up_proj_scale_inv"):
        return _line_of_codes(module, top)
    w1, w2 = module.gate_up_proj, module.down_proj
    rows, ids = w1.new_empty(0, w1.shape[-1], device="meta"), torch.empty(0, top, dtype=torch.int32, device="meta")
    with torch.no_grad():
        if _reason_against(module, rows, ids, ids.float()):
            return None
    layout = "io" if module.is_transposed else "oi"
    experts, n, k, l = extents_of(w1, w2, layout)
    return experts_line(experts, top, n, k, l, ACTIVATIONS[type(module.act_fn).__name__], w1.dtype, layout), w1.device


def _line_of_codes(module: Any, top: int) -> Optional[Tuple[str, torch.device]]:
    w1, w2, dtype = module.gate_up_proj, module.down_proj, getattr(module.config, "dtype", None) or torch.bfloat16
    rows, ids = torch.empty(0, w1.shape[-1], dtype=dtype, device="meta"), torch.empty(0, top, dtype=torch.int32, device="meta")
    with torch.no_grad():
        if _reason_against_codes(module, rows, ids, ids.float()):
            return None
    experts, n, k, l = extents_of(w1, w2)
    return scaled_experts_key(experts, top, n, k, l, dtype, False), w1.device


def _tell(kind: str, reason: str) -> None:
    """Logs a reason once for each class of experts."""
    if (kind, reason) not in _told:
        _told.add((kind, reason))
        logger.warning("sinter: transformers computes experts of %s by grouped_mm: %s", kind, reason)


def register_when_loaded() -> None:
    """Adds the name to transformers' registries: now, if they are loaded, else when they are."""
    for registry, register in ((_REGISTRY, _register), (_REGISTRY_OF_CODES, _register_codes)):
        if registry in sys.modules:
            register(sys.modules[registry])
        elif not any(isinstance(finder, _Finder) and finder.registry == registry for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder(registry, register))


def _register(registry: Any) -> None:
    experts: Any = getattr(registry, "ExpertsInterface", None)
    if experts is not None and hasattr(registry, "_default_apply_gate"):
        experts.register(NAME, experts_forward)


def _register_codes(registry: Any) -> None:
    experts: Any = getattr(registry, "FP8ExpertsInterface", None)
    if experts is not None and hasattr(getattr(registry, "FP8Experts", None), "_apply_gate"):
        experts.register(NAME, codes_forward)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds a registry as Python would, and adds the name after the registry is loaded."""

    def __init__(self, registry: str, register: Callable[[Any], None]) -> None:
        self.registry, self.register = registry, register

    def find_spec(self, name: str, path: Optional[Sequence[str]], target: Any = None) -> Optional[importlib.machinery.ModuleSpec]:
        if name != self.registry:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        sys.meta_path.remove(self)
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            self.register(module)

        loader.exec_module = exec_module
        return spec
