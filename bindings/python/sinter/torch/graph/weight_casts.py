"""Makes separate parts of casts of weights, which autocast inserts in each call.

In the part of their reader they would be computed operands, which no product's kernel takes: another kernel would add its bias.
Inductor runs one kernel for each cast.
"""

from __future__ import annotations

from typing import Any, FrozenSet, List, Sequence

from ..convert.arrays import DTYPES, HALVES
from ..convert.converter import CAST, target_of

_MOST = 128  # the most casts in a part, whose kernels have so many inputs and outputs
_MOST_BYTES = 1 << 28  # the limit of a part's results, which live from its kernel to their last readers
_LEAST = 2
_ALIGNED = 16  # bytes


def casts_of_weights(nodes: Sequence[Any], weights: FrozenSet[int], device: str) -> List[List[Any]]:
    """Casts of f32 inputs that are `weights`, or of rows of matrices among them, to 16 bits, on `device`, in parts of those that are read next to
    each other, with at most `_MOST` and `_MOST_BYTES`, or one that is larger; symbolic ones are left out."""
    from torch._functorch._aot_autograd.descriptors import PlainAOTInput

    def takes(node: Any) -> bool:
        source = _weight_of(node.args[0]) if target_of(node) == CAST else None
        if source is None or source.op != "placeholder":
            return False
        given, at = node.args[0].meta["val"], source.meta.get("desc")
        named = DTYPES.get(str(given.dtype)) == "f32" and DTYPES.get(str(node.meta["val"].dtype)) in HALVES
        static = all(isinstance(size, int) and size > 0 for size in given.shape)
        return named and static and given.device.type == device and isinstance(at, PlainAOTInput) and at.idx in weights

    casts = [node for node in nodes if takes(node)]
    if len(casts) < _LEAST:
        return []
    place = {node: i for i, node in enumerate(casts[0].graph.nodes)}
    casts.sort(key=lambda cast: min((place[user] for user in cast.users), default=place[cast]))
    parts: List[List[Any]] = []
    held = 0
    for cast in casts:
        own = 2 * cast.meta["val"].numel()
        if not parts or len(parts[-1]) == _MOST or held + own > _MOST_BYTES:
            parts.append([])
            held = 0
        parts[-1].append(cast)
        held += own
    return parts


def _weight_of(node: Any) -> Any:
    """The matrix whose rows `node` is, if they are contiguous and begin at an aligned address; any other node as it is."""
    if target_of(node) != "aten.slice.Tensor" or len(node.args) < 2 or node.args[1] != 0:
        return node
    val = node.meta["val"]
    begin = val.storage_offset()
    aligned = isinstance(begin, int) and begin * val.element_size() % _ALIGNED == 0
    return node.args[0] if len(val.shape) == 2 and val.is_contiguous() and aligned else node
