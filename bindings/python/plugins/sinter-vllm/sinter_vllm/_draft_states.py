"""States between layers of a vLLM model, which a drafting model asks for (EAGLE 3).

vLLM keeps the sum of a layer's result and the residual. A linked layer passes on queries, keys and values instead of its result. Its plan
outputs the residual stream, which is that sum: it is kept as it is, and no kernel runs.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Optional

NAME = "_maybe_add_hidden_state"
_ARGUMENTS = ["self", "aux_hidden_states", "layer_idx", "hidden_states", "residual"]


def asked_for(model: Any) -> bool:
    return bool(getattr(model, "aux_hidden_state_layers", ()))


def reason_against(model: Any) -> str:
    """Why a model with such states cannot be linked; "" if it can, or has none."""
    if not asked_for(model):
        return ""
    own: Optional[Callable[..., Any]] = getattr(type(model), NAME, None)
    if own is None or not getattr(own, "is_sinters", False) and list(inspect.signature(own).parameters) != _ARGUMENTS:
        return f"states between layers are asked for, and vLLM does not keep them by {NAME}({', '.join(_ARGUMENTS[1:])})"
    return ""


def keep_streams(model: Any) -> None:
    """Makes a linked model keep the residual streams between its layers."""
    if not asked_for(model):
        return
    model.sinter_linked = len(model.layers)
    kind = type(model)
    own: Any = getattr(kind, NAME)
    if getattr(own, "is_sinters", False):
        return

    def keep(self: Any, aux_hidden_states: Any, layer_idx: int, hidden_states: Any, residual: Any) -> Any:
        last = getattr(self, "sinter_linked", 0) - 1
        if not 0 < layer_idx <= last or layer_idx not in self.aux_hidden_state_layers:
            return own(self, aux_hidden_states, layer_idx, hidden_states, residual)
        # vLLM computes the last layer, whose norm may add to the residual in place.
        aux_hidden_states.append(residual.clone() if layer_idx == last else residual)
        return aux_hidden_states

    keep.is_sinters = True  # type: ignore[attr-defined]
    setattr(kind, NAME, keep)
