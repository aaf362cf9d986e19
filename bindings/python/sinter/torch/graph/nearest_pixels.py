"""Recognises images that are enlarged by whole factors to the nearest pixel. Inductor decomposes that into gathers of rows and columns by ids
that the graph computes from constants. They become repeated pixels, which a chain broadcasts.
"""

from __future__ import annotations

from typing import Any, List, Optional

import torch

from ..convert.arrays import DTYPES
from ..convert.converter import CAST, target_of
from .channels_last import tell_strides
from .nodes import add_call, erase_unread

INDEX = ("aten._unsafe_index.Tensor", "aten.index.Tensor")
#: Operators that compute ids.
_STEPS = (
    *(CAST, "aten.add.Tensor", "aten.mul.Tensor", "aten.sub.Tensor", "aten.floor.default"),
    *("aten.unsqueeze.default", "aten.view.default", "aten.reshape.default", "aten.clamp_max.default", "aten.clamp_min.default"),
)
_IDS = "prims.iota.default"
_MOST_IDS = 1 << 14


def repeat_pixels(graph: torch.fx.Graph) -> None:
    """Rewrites `x[:, :, rows, columns]` as repeated pixels if each list of ids names every pixel, each a whole number of times in a row."""
    made = []
    for node in list(graph.nodes):
        factors = _factors(node)
        if factors is None:
            continue
        x, aten = node.args[0], torch.ops.aten
        n, c, height, width = x.meta["val"].shape
        with graph.inserting_before(node):
            apart = add_call(graph, aten.unsqueeze.default, add_call(graph, aten.unsqueeze.default, x, 3), 5)
            wide = add_call(graph, aten.expand.default, apart, [n, c, height, factors[0], width, factors[1]])
            made.append(add_call(graph, aten.reshape.default, wide, [n, c, height * factors[0], width * factors[1]]))
        node.replace_all_uses_with(made[-1])
        erase_ids(graph, node)
    tell_strides(graph, made)


def erase_ids(graph: torch.fx.Graph, node: Any) -> None:
    """Erases a node that nobody reads, then gathers and the ops that compute their ids, if nobody reads them any longer."""
    erase_unread(graph, node, lambda each: each is node or target_of(each) in (_IDS, *INDEX, *_STEPS))


def _factors(node: Any) -> Optional[List[int]]:
    """How often each row and each column is read; None for a node that is not such a gather."""
    if target_of(node) not in INDEX or len(node.args[1]) != 4 or any(i is not None for i in node.args[1][:2]):
        return None
    val = node.args[0].meta["val"]
    if len(val.shape) != 4 or str(val.dtype) not in DTYPES or not all(isinstance(size, int) and size > 0 for size in val.shape):
        return None
    rows, columns = node.args[1][2:]
    if rows is None or columns is None or rows.meta["val"].dim() != 2 or columns.meta["val"].dim() != 1 or rows.meta["val"].shape[1] != 1:
        return None
    found = [_repeats(computed(ids), size) for ids, size in zip((rows, columns), val.shape[2:])]
    return None if None in found or found == [1, 1] else found  # type: ignore[return-value]


def _repeats(ids: Optional[List[Any]], size: int) -> Optional[int]:
    """How often each of `size` indices is repeated in `ids`, all in ascending order; None for other ids."""
    if ids is None or len(ids) % size:
        return None
    times = len(ids) // size
    return times if ids == [i // times for i in range(len(ids))] else None


def computed(node: Any) -> Optional[List[Any]]:
    """The elements of a value that the graph computes only from constants; None for any other value."""
    with torch.utils._python_dispatch._disable_current_modes():
        value = _evaluated(node, 16)
        return None if value is None else value.flatten().tolist()


def _evaluated(node: Any, deep: int) -> Optional[torch.Tensor]:
    val = node.meta.get("val")
    if not isinstance(val, torch.Tensor) or not all(isinstance(size, int) for size in val.shape) or val.numel() > _MOST_IDS or not deep:
        return None
    if target_of(node) == _IDS:
        made: torch.Tensor = node.target(*node.args, **{**node.kwargs, "device": torch.device("cpu")})
        return made
    if target_of(node) not in _STEPS:
        return None
    operands = {i: _evaluated(i, deep - 1) for i in node.all_input_nodes}
    if any(value is None for value in operands.values()):
        return None
    arguments, named = torch.fx.node.map_arg((node.args, node.kwargs), operands.__getitem__)
    result: torch.Tensor = node.target(*arguments, **named)
    return result
