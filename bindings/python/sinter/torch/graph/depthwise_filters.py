"""Lays filters of depthwise convolutions with adjacent channels in memory, the order that their kernels read fastest.

PyTorch stores each channel's filter contiguously. The reordered filters are computed from weights in each call, by one kernel for the whole
graph (``batch_norm.made_together``).
"""

from __future__ import annotations

import math
from typing import Any, List, NamedTuple, Set

import torch

from ..convert.arrays import DTYPES, HALVES
from ..convert.converter import memory_order
from ..convert.windows import by_channel
from .nodes import add_call


class Laid(NamedTuple):
    """A filter that was reordered.

    Attributes:
        weight: the model's weight.
        moved: a view of it with the channels last.
        made: a copy of that view in its own memory.
        seen: a view of the copy with the weight's axes.
    """

    weight: Any
    moved: Any
    made: Any
    seen: Any


def lay_filters(graph: torch.fx.Graph, constants: Set[Any]) -> List[Laid]:
    """Makes depthwise convolutions read reordered filters instead of their weights, if those are `constants`.

    The order of `graph` stays topological.
    """
    found = []
    aten = torch.ops.aten
    for node in list(graph.nodes):
        if not by_channel(node) or node.args[1] not in constants:
            continue
        weight, val = node.args[1], node.args[1].meta["val"]
        rank, taps = len(val.shape), math.prod(val.shape[2:])
        if val.shape[1] != 1 or not isinstance(taps, int) or taps == 1 or DTYPES.get(str(val.dtype)) not in HALVES:
            continue
        last = memory_order(val.shape, val.permute(*range(2, rank), 1, 0).contiguous().permute(-1, -2, *range(rank - 2)).stride())
        back = sorted(range(rank), key=last.__getitem__)
        with graph.inserting_before(node):
            moved = add_call(graph, aten.permute.default, weight, list(last))
            made = add_call(graph, aten.clone.default, moved, memory_format=torch.contiguous_format)
            seen = add_call(graph, aten.permute.default, made, back)
        node.replace_input_with(weight, seen)
        found.append(Laid(weight, moved, made, seen))
    return found


def lay_back(graph: torch.fx.Graph, laid: List[Laid]) -> None:
    """Restores the weights of the convolutions that no operator captured."""
    for each in laid:
        if not each.seen._erased:
            each.seen.replace_all_uses_with(each.weight)
            graph.erase_node(each.seen)
        for node in (each.made, each.moved):
            if not node.users:
                graph.erase_node(node)
