"""Rows of ATen operators on the windows of an image: poolings, and the ops of depthwise convolutions. A chain's images have their
channels last.

Composites of the library are written here as their single ops, so that a refused op has a node.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from ..._value import Value
from ..._operators import maximum, minimum, window as windows
from .arrays import Array, Refused
from .converter import Converter, target_of
from .op_table import row

#: By rank: for each axis of the graph's line or image, which axis of the chain's it is.
CHANNELS_SECOND = {3: (0, 2, 1), 4: (0, 3, 1, 2)}
_CHANNELS_LAST = {3: (0, 2, 1), 4: (0, 2, 3, 1)}


def channels_last(a: Array) -> Value:
    """A line or an image with its channels last; unchanged if they are last in memory."""
    rank = len(a.order)
    return a.value if a.order == CHANNELS_SECOND[rank] else a.plain.transpose(*_CHANNELS_LAST[rank])


def each_channel_by_itself(c: Converter, x: Value, w: Array, taps: Sequence[int], **moves: Sequence[int]) -> Value:
    """A convolution in as many groups as x and the result have channels. `w`: [channels, 1, *taps]; a line's has no height of 1."""
    channels = w.dims[0]
    if list(w.order[2:]) == sorted(w.order[2:]) and w.order[0] == len(w.order) - 1:  # channels are adjacent in memory
        filters = w.value.reshape(*taps, channels)
    else:
        filters = w.plain.reshape(channels, *taps).transpose(1, 2, 0)
    seen = windows(x, c.builder.scalar(0.0, x.dtype), taps, **_four_pads(moves))
    return (seen.cast("f32") * filters.cast("f32")).sum((3, 4))


def _four_pads(moves: Dict[str, Sequence[int]]) -> Dict[str, Sequence[int]]:
    """The arguments with the pads above and left repeated below and right."""
    top, left = moves["padding"]
    return {**moves, "padding": (top, top, left, left)}


def _image(c: Converter, node: Any) -> Value:
    image = c.array(node)
    if image.folded:
        raise Refused("its images are rows of M")
    if len(image.order) != 4:
        raise Refused(f"a pooling of rank {len(image.order)}")
    return channels_last(image)


def _sides(given: Any, default: Sequence[int]) -> List[int]:
    """A number for height and one for width. Torch also takes one number, a list of one, or an empty list."""
    sides = [given] if isinstance(given, int) else list(given or default)
    return sides * 2 if len(sides) == 1 else sides


def _moves(node: Any) -> Tuple[List[int], List[int], List[int]]:
    """Window, strides and pads of a pooling."""
    window = _sides(node.args[1], ())
    return window, _sides(node.args[2] if len(node.args) > 2 else None, window), _sides(node.args[3] if len(node.args) > 3 else 0, (0,))


def _beyond(x: Value, result: Any, window: Sequence[int], stride: Sequence[int], pads: Sequence[int], dilation: Sequence[int]) -> List[int]:
    """Pixels past the pads below and at the right that the last windows reach, if the number of results is rounded up."""
    outputs, sizes = result.shape[2:], x.shape[1:3]
    reached = [(n - 1) * s + d * (k - 1) + 1 for n, s, d, k in zip(outputs, stride, dilation, window)]
    return [max(0, reach - size - 2 * pad) for reach, size, pad in zip(reached, sizes, pads)]


@row("aten.max_pool2d_with_indices.default", "prims._low_memory_max_pool_with_offsets.default", several=True, first=True)
def _max_pool(c: Converter, node: Any) -> Tuple[Array]:
    """Only the values; nobody reads their indices."""
    x = _image(c, node.args[0])
    window, stride, pads = _moves(node)
    dilation = _sides(node.args[4] if len(node.args) > 4 else 1, (1,))
    below, right = _beyond(x, node.meta["val"][0], window, stride, pads, dilation)
    padding = (pads[0], pads[0] + below, pads[1], pads[1] + right)
    seen = windows(x, c.builder.scalar(float("-inf"), x.dtype), window, stride=stride, padding=padding, dilation=dilation)
    return (Array(seen.max((3, 4)), CHANNELS_SECOND[4]),)


@row("aten.avg_pool2d.default")
def _avg_pool(c: Converter, node: Any) -> Array:
    given = [*node.args, *(None,) * (7 - len(node.args))]
    counts_pads = node.kwargs.get("count_include_pad", given[5])
    if node.kwargs.get("divisor_override", given[6]) is not None:
        raise Refused("a pooling with a divisor of its own")
    x = _image(c, node.args[0])
    window, stride, pads = _moves(node)
    if any(_beyond(x, node.meta["val"], window, stride, pads, (1, 1))):
        raise Refused("a mean of windows that reach over the pads")
    seen = windows(x, c.builder.scalar(0.0, x.dtype), window, **_four_pads({"stride": stride, "padding": pads})).cast("f32")
    if counts_pads is not False or not any(pads):
        return Array(seen.mean((3, 4)), CHANNELS_SECOND[4])
    rows, columns = (_counts(c, seen, x, i, window, stride, pads) for i in range(2))
    return Array(seen.sum((3, 4)) / (rows * columns), CHANNELS_SECOND[4])


def _counts(c: Converter, seen: Value, x: Value, side: int, window: Sequence[int], stride: Sequence[int], pads: Sequence[int]) -> Value:
    """How many rows (`side` 0) or columns of each window are inside the image."""
    first = c.builder.iota("s32", (seen.shape[1], seen.shape[2], 1), side) * stride[side]
    last = minimum(first + window[side], x.shape[1 + side] + pads[side])
    return (last - maximum(first, pads[side])).cast("f32")


@row("aten._adaptive_avg_pool2d.default")
def _adaptive_avg_pool(c: Converter, node: Any) -> Array:
    """An average over windows that are equal and do not overlap."""
    x = _image(c, node.args[0])
    sizes, results = x.shape[1:3], node.meta["val"].shape[2:]
    if any(not isinstance(n, int) or not isinstance(size, int) or size % n for size, n in zip(sizes, results)):
        raise Refused("a mean of windows that overlap")
    window = [size // n for size, n in zip(sizes, results)]
    seen = windows(x, c.builder.scalar(0.0, x.dtype), window, stride=window)
    return Array(seen.cast("f32").mean((3, 4)), CHANNELS_SECOND[4])


def by_channel(node: Any) -> bool:
    """Whether a node is a depthwise convolution."""
    groups = groups_of(node)
    return groups != 1 and groups == node.args[0].meta["val"].shape[1] == node.args[1].meta["val"].shape[0]


def groups_of(node: Any) -> int:
    """The number of groups of a convolution; 1 for any other node."""
    return int(node.args[8]) if target_of(node) == "aten.convolution.default" and len(node.args) > 8 else 1
