"""Images enlarged or made smaller by interpolating between four pixels, as one operator again.

Inductor gets them decomposed: four reads by ids that the graph makes of nothing, and what is between them.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .._builder import Value
from .._operators import maximum, minimum
from ._arrays import DTYPES, Array, Refused
from ._convert import Converter, target_of
from ._layout import tell_strides
from ._nearest import INDEX, computed, erase_unread
from ._replace import add_call
from ._row import row
from ._windows import CHANNELS_SECOND, channels_last

_NEAR = 1e-3  # pixels: how far places may be from those of f32's roundings


class _Lerp(NamedTuple):
    """``base + (other - base) * weight``."""

    base: Any
    other: Any
    weight: Any


class _Places(NamedTuple):
    """Of an axis: how far results are apart in pixels of the image, and whether the corners' centres lie on each other."""

    step: float
    corners: bool


def interpolations(graph: torch.fx.Graph) -> None:
    """Writes what interpolates in rows and columns as ``upsample_bilinear2d``."""
    made = []
    for node in list(graph.nodes):
        found = None if node._erased else _interpolated(node)
        if found is None:
            continue
        x, sizes, places = found
        scales = [None if places[0].corners else 1 / each.step for each in places]
        with graph.inserting_before(node):
            target = torch.ops.aten.upsample_bilinear2d.default
            made.append(add_call(graph, target, x, sizes, places[0].corners, *scales))
        node.replace_all_uses_with(made[-1])
        erase_unread(graph, node)
    tell_strides(graph, made)


def _lerp(node: Any) -> Optional[_Lerp]:
    if target_of(node) != "aten.add.Tensor" or node.kwargs or not all(hasattr(i, "meta") for i in node.args):
        return None
    base, product = node.args
    if target_of(product) != "aten.mul.Tensor" or target_of(product.args[0]) != "aten.sub.Tensor" or product.args[0].kwargs:
        return None
    other, same = product.args[0].args
    return _Lerp(base, other, product.args[1]) if same is base and hasattr(product.args[1], "meta") else None


def _interpolated(node: Any) -> Optional[Tuple[Any, List[int], Tuple[_Places, _Places]]]:
    """The image, the result's rows and columns, and where those lie; None of what is no such sum."""
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
    size = list(node.meta["val"].shape[2:])
    down = _places(rows[0], rows[2], outer.weight, size[0], sizes[2])
    across = _places(columns[0], columns[1], first.weight, size[1], sizes[3])
    both = [(a, b) for a in down for b in across if a.corners == b.corners]
    return (x, size, both[0]) if both else None


def _places(first: Any, last: Any, weight: Any, count: int, size: int) -> List[_Places]:
    """What may be said of an axis whose results lie between pixels `first` and `last`."""
    low, high, share = (computed(each) or [] for each in (first, last, weight))
    if not len(low) == len(high) == len(share) == count or any(not 0 <= a < size or b != min(a + 1, size - 1) for a, b in zip(low, high)):
        return []
    at = [a + part for a, part in zip(low, share)]
    said = [_Places((at[-1] + 0.5) / (count - 0.5), False), _Places(_step(count, size), True)]
    return [p for p in said if all(abs(a - b) < _NEAR for a, b in zip(at, _sources(p, count)))]


def _sources(places: _Places, count: int) -> Sequence[float]:
    return [i * places.step if places.corners else max((i + 0.5) * places.step - 0.5, 0.0) for i in range(count)]


def _step(count: int, size: int, scale: Optional[float] = None, corners: bool = True) -> float:
    """Pixels from one result to the next. `scale`: results a pixel, where the extents do not say it."""
    if corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1 / scale if scale else size / count


@row("aten.upsample_bilinear2d.default")
def _upsample(c: Converter, node: Any) -> Array:
    """Four gathers of pixels, whose ids and shares of the result are made of its place."""
    given = [*node.args, *(None,) * (5 - len(node.args))]
    source, (height, width), corners = given[:3]
    wide = target_of(source) == "prims.convert_element_type.default" and source.args[0].meta["val"].dtype.is_floating_point
    image = c.array(source.args[0] if wide else source)  # a cast of each pixel that is read, and not of each pixel
    if image.folded:
        raise Refused("its images are rows of M")
    x = channels_last(image)
    n, rows, columns, channels = x.shape
    if not isinstance(n, int):
        raise Refused("an interpolation of M images")
    top, bottom, down = _between(c, height, rows, _step(height, rows, given[3], corners), corners)
    left, right, across = _between(c, width, columns, _step(width, columns, given[4], corners), corners)
    pixels = x.reshape(n, rows * columns, channels).transpose(1, 0, 2)

    def at(row: Value, column: Value) -> Value:
        return pixels.gather((row * columns).reshape(height, 1) + column).cast("f32")

    def line(row: Value) -> Value:
        first = at(row, left)
        return first + (at(row, right) - first) * across.reshape(width, 1, 1)

    first = line(top)
    y = first + (line(bottom) - first) * down.reshape(height, 1, 1, 1)
    return Array(y.transpose(2, 0, 1, 3), CHANNELS_SECOND[4])


def _between(c: Converter, count: int, size: int, step: float, corners: bool) -> Tuple[Value, Value, Value]:
    """For each result along an axis the two pixels that it lies between, and the second one's share."""
    place = c.builder.iota("f32", (count,), 0)
    place = place * step if corners else maximum((place + 0.5) * step - 0.5, 0.0)
    first = minimum(place.cast("s32"), size - 1)
    return first, minimum(first + 1, size - 1), minimum(maximum(place - first.cast("f32"), 0.0), 1.0)
