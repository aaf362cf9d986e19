"""Recognises images that are resized by interpolation between four pixels, and writes them as one operator again.

Inductor gets them decomposed: four gathers by ids that the graph computes from constants, and the arithmetic between them.
"""

from __future__ import annotations

import contextlib
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..convert.arrays import DTYPES
from ..convert.bilinear import step_of
from ..convert.converter import target_of
from ..runtime.warn import warn_once
from .channels_last import tell_strides
from .nearest_pixels import INDEX, computed, erase_ids
from .nodes import add_call

_OPERATOR = torch.ops.aten.upsample_bilinear2d.default
_NEAR = 1e-3  # pixels: the tolerance for places, which f32 rounds


class _Lerp(NamedTuple):
    """``base + (other - base) * weight``."""

    base: Any
    other: Any
    weight: Any


class _Places(NamedTuple):
    """The places of results along an axis: their distance in pixels of the image, and whether the centres of the corners are aligned."""

    step: float
    corners: bool


def interpolations(graph: torch.fx.Graph) -> None:
    """Rewrites interpolations in rows and columns as ``upsample_bilinear2d``."""
    made = []
    for node in list(graph.nodes):
        found = None if node._erased else _interpolated(node)
        if found is None:
            continue
        x, sizes, places = found
        scales = [None if places[0].corners else 1 / each.step for each in places]
        with graph.inserting_before(node):
            made.append(add_call(graph, _OPERATOR, x, sizes, places[0].corners, *scales))
        node.replace_all_uses_with(made[-1])
        erase_ids(graph, node)
    tell_strides(graph, made)


def write_out(graph: torch.fx.Graph) -> None:
    """Decomposes the operators that no part captured again: Inductor fuses the gathers, and has no kernel of its own for the operator."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    for node in graph.find_nodes(op="call_function", target=_OPERATOR):
        x = node.args[0]
        try:
            val = x.meta["val"]
            with getattr(val, "fake_mode", contextlib.nullcontext()), enable_python_dispatcher():  # else ids would not be fake tensors
                spelled = make_fx(lambda *image: _OPERATOR(*image, *node.args[1:]), select_decomp_table())(val).graph
        except Exception as error:  # Inductor calls torch's kernel
            warn_once(f"an interpolation is not fused: {type(error).__name__}: {error}")
            continue
        given = next(iter(spelled.nodes))
        with graph.inserting_before(node):
            result = graph.graph_copy(spelled, {given: x})
        node.replace_all_uses_with(result)
        graph.erase_node(node)


def _lerp(node: Any) -> Optional[_Lerp]:
    if target_of(node) != "aten.add.Tensor" or node.kwargs or not all(hasattr(i, "meta") for i in node.args):
        return None
    base, product = node.args
    if target_of(product) != "aten.mul.Tensor" or target_of(product.args[0]) != "aten.sub.Tensor" or product.args[0].kwargs:
        return None
    other, same = product.args[0].args
    return _Lerp(base, other, product.args[1]) if same is base and hasattr(product.args[1], "meta") else None


def _interpolated(node: Any) -> Optional[Tuple[Any, List[int], Tuple[_Places, _Places]]]:
    """The image, the result's rows and columns, and their places; None for a node that is not such an interpolation."""
    outer = _lerp(node)
    first, second = (None, None) if outer is None else (_lerp(outer.base), _lerp(outer.other))
    if outer is None or first is None or second is None or first.weight is not second.weight:
        return None
    corners = [first.base, first.other, second.base, second.other]
    if any(target_of(i) not in INDEX or len(i.args[1]) != 4 or any(ids is not None for ids in i.args[1][:2]) for i in corners):
        return None
    x = corners[0].args[0]
    sizes, dtype = x.meta["val"].shape, str(x.meta["val"].dtype)
    static = len(sizes) == 4 and all(isinstance(size, int) and size > 0 for size in sizes)
    if any(i.args[0] is not x for i in corners) or not static or dtype not in DTYPES:
        return None
    rows, columns = ([i.args[1][axis] for i in corners] for axis in (2, 3))
    if rows[0] is not rows[1] or rows[2] is not rows[3] or columns[0] is not columns[2] or columns[1] is not columns[3]:
        return None
    if any(_sizes(along) != [*_sizes(along)[:1], 1] for along in (rows[0], rows[2], outer.weight)):
        return None
    if any(len(_sizes(along)) != 1 for along in (columns[0], columns[1], first.weight)) or len(node.meta["val"].shape) != 4:
        return None
    size = list(node.meta["val"].shape[2:])
    down = _places(rows[0], rows[2], outer.weight, size[0], sizes[2])
    across = _places(columns[0], columns[1], first.weight, size[1], sizes[3])
    both = [(a, b) for a in down for b in across if a.corners == b.corners]
    return (x, size, both[0]) if both else None


def _sizes(node: Any) -> List[Any]:
    """The extents without leading axes of 1: [n, 1] along rows, [n] along columns."""
    sizes = list(node.meta["val"].shape) if isinstance(getattr(node, "meta", {}).get("val"), torch.Tensor) else []
    while len(sizes) > 2 and sizes[0] == 1:
        sizes = sizes[1:]
    return sizes


def _places(first: Any, last: Any, weight: Any, count: int, size: int) -> List[_Places]:
    """The possible places of results along an axis that lie between pixels `first` and `last`."""
    low, high, share = (computed(each) or [] for each in (first, last, weight))
    if not len(low) == len(high) == len(share) == count or any(not 0 <= a < size or b != min(a + 1, size - 1) for a, b in zip(low, high)):
        return []
    at = [a + part for a, part in zip(low, share)]
    said = [_Places((at[-1] + 0.5) / (count - 0.5), False), _Places(step_of(count, size), True)]
    return [p for p in said if all(abs(a - b) < _NEAR for a, b in zip(at, _sources(p, count)))]


def _sources(places: _Places, count: int) -> Sequence[float]:
    return [i * places.step if places.corners else max((i + 0.5) * places.step - 0.5, 0.0) for i in range(count)]
