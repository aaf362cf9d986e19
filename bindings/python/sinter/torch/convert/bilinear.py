"""Interpolations between four pixels, as ops of a chain."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from ..._value import Value
from ..._operators import maximum, minimum
from .arrays import Array, Refused
from .converter import CAST, Converter, target_of
from .op_table import row
from .windows import CHANNELS_SECOND, channels_last


def step_of(count: int, size: int, scale: Optional[float] = None, corners: bool = True) -> float:
    """Pixels from one result to the next. `scale`: results for each pixel, if the extents do not determine it."""
    if corners:
        return (size - 1) / (count - 1) if count > 1 else 0.0
    return 1 / scale if scale else size / count


def _source(node: Any) -> Any:
    """The image before a cast to f32: the pixels that are read are then cast, not all pixels."""
    source = node.args[0]
    wide = target_of(source) == CAST and source.args[0].meta["val"].dtype.is_floating_point
    return source.args[0] if wide else source


@row("aten.upsample_bilinear2d.default", reads=lambda node, _: [_source(node)])
def _upsample(c: Converter, node: Any) -> Array:
    """Four gathers of pixels. Their ids and their shares of a result follow from the result's place."""
    given = [*node.args, *(None,) * (5 - len(node.args))]
    (height, width), corners = given[1:3]
    image = c.array(_source(node))
    if image.folded:
        raise Refused("its images are rows of M")
    x = channels_last(image)
    n, rows, columns, channels = x.shape
    if not isinstance(n, int):
        raise Refused("an interpolation of M images")
    top, bottom, down = _between(c, height, rows, step_of(height, rows, given[3], corners), corners)
    left, right, across = _between(c, width, columns, step_of(width, columns, given[4], corners), corners)
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
    """For each result along an axis: the two pixels on either side of it, and the second one's share."""
    place = c.builder.iota("f32", (count,), 0)
    place = place * step if corners else maximum((place + 0.5) * step - 0.5, 0.0)
    first = minimum(place.cast("s32"), size - 1)
    return first, minimum(first + 1, size - 1), minimum(maximum(place - first.cast("f32"), 0.0), 1.0)
