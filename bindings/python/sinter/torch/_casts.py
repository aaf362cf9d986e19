"""Casts of weights, which autocast makes in each call, as parts of their own.

Beside what reads them they would be operands that a part computes, which no product's kernel takes: its bias would be added by another
kernel. Inductor runs one kernel for each.
"""

from __future__ import annotations

from typing import Any, FrozenSet, List, Sequence

from ._arrays import DTYPES, HALVES
from ._convert import target_of

_CAST = "prims.convert_element_type.default"
_MOST = 128  # of a part, whose kernels have so many inputs and outputs
_LEAST = 2


def casts_of_weights(nodes: Sequence[Any], weights: FrozenSet[int], device: str) -> List[List[Any]]:
    """Casts of f32 inputs that are `weights` to 16 bits, on `device`, in parts of at most `_MOST`; none of a graph with symbolic ones."""
    from torch._functorch._aot_autograd.descriptors import PlainAOTInput

    def takes(node: Any) -> bool:
        if target_of(node) != _CAST or node.args[0].op != "placeholder":
            return False
        given, at = node.args[0].meta["val"], node.args[0].meta.get("desc")
        named = DTYPES.get(str(given.dtype)) == "f32" and DTYPES.get(str(node.meta["val"].dtype)) in HALVES
        static = all(isinstance(size, int) and size > 0 for size in given.shape)
        return named and static and given.device.type == device and isinstance(at, PlainAOTInput) and at.idx in weights

    casts = [node for node in nodes if takes(node)]
    if len(casts) < _LEAST:
        return []
    count = -(-len(casts) // _MOST)
    size = -(-len(casts) // count)
    return [casts[i : i + size] for i in range(0, len(casts), size)]
