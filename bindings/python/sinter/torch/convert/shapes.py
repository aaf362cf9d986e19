"""Rows of ATen operators that compute nothing: views, copies, slices, concatenations, rows by ids."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence, Tuple

from ..._operators import concat
from .arrays import Array, Refused, extent, of, together
from .converter import Converter, argument, target_of
from .op_table import applying, row


@row(
    *("aten.clone.default", "aten.alias.default", "aten.detach.default", "aten.lift_fresh_copy.default"),
    "prims.inductor_force_stride_order.default",
    moves=True,
)
def _same(c: Converter, node: Any) -> Array:
    return c.array(node.args[0])


@row(
    *("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.unsqueeze.default"),
    *("aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default"),
    view=True,
    moves=True,
)
def _reshape(c: Converter, node: Any) -> Array:
    if node in c.apart:
        return c.apart[node]
    x = c.array(node.args[0])
    dims, folded = c.dims(node)
    if x.dims == dims:
        return x._replace(folded=folded)
    kept = None if x.in_order else _where_it_lies(x, dims)
    return of(x.plain.reshape(*dims), folded) if kept is None else kept._replace(folded=folded)


def _where_it_lies(x: Array, dims: Tuple[Any, ...]) -> Optional[Array]:
    """`x` with the axes `dims`, without moving elements; None if axes become one that are apart in memory, or in another order."""
    wide = sorted((axis for axis, size in zip(x.order, x.dims) if size != 1))
    places = [wide.index(axis) for axis, size in zip(x.order, x.dims) if size != 1]
    groups = _groups([size for size in x.dims if size != 1], [size for size in dims if size != 1])
    if groups is None or any([places[i] for i in old] != list(range(places[old[0]], places[old[0]] + len(old))) for old, _ in groups):
        return None
    ones = sum(size == 1 for size in dims)
    laid = [j for _, new in sorted(groups, key=lambda group: places[group[0][0]]) for j in new]  # the wide axes of `dims`, in memory order
    at, front = iter(ones + laid.index(j) for j in range(len(laid))), iter(range(ones))
    order = tuple(next(front) if size == 1 else next(at) for size in dims)
    return Array(x.value.reshape(*[dims[order.index(i)] for i in range(len(dims))]), order)


def _groups(old: Sequence[Any], new: Sequence[Any]) -> Optional[List[Tuple[List[int], List[int]]]]:
    """Which axes become which in a reshape: the smallest groups of equal products. M becomes itself. None if there are no such groups."""
    groups, i, j = [], 0, 0
    while i < len(old) and j < len(new):
        a, b, i, j = old[i], new[j], i + 1, j + 1
        group = [i - 1], [j - 1]
        while a != b:
            if not (isinstance(a, int) and isinstance(b, int)) or (i if a < b else j) == len(old if a < b else new):
                return None
            if a < b:
                a, i = a * old[i] if isinstance(old[i], int) else old[i], i + 1
                group[0].append(i - 1)
            else:
                b, j = b * new[j] if isinstance(new[j], int) else new[j], j + 1
                group[1].append(j - 1)
        groups.append(group)
    return groups if i == len(old) and j == len(new) else None


@row("aten.permute.default", "aten.transpose.int", "aten.t.default", view=True, moves=True)
def _permute(c: Converter, node: Any) -> Array:
    x, rank = c.array(node.args[0]), len(node.meta["val"].shape)
    axes = list(range(rank))
    if target_of(node) == "aten.permute.default":
        axes = [axis % rank for axis in node.args[1]]
    elif rank >= 2:
        a, b = (0, 1) if target_of(node) == "aten.t.default" else (node.args[1] % rank, node.args[2] % rank)
        axes[a], axes[b] = axes[b], axes[a]
    if x.folded and axes[: x.folded] != list(range(x.folded)):
        raise Refused("it moves an axis that is part of M")
    skip = x.folded - 1 if x.folded else 0
    kept = [0] + [axis - skip for axis in axes[x.folded :]] if x.folded else axes
    return Array(x.value, tuple(x.order[axis] for axis in kept), x.folded)


row("aten.expand.default", view=True, moves=True)(applying(lambda x: x, 1, ""))


@row("aten.repeat.default")
def _repeat(c: Converter, node: Any) -> Array:
    x, times = c.array(node.args[0]), list(node.args[1])
    dims, folded = c.dims(node)
    if folded or any(not isinstance(number, int) for number in (*times, *dims)):
        raise Refused("it repeats rows of M")
    own = [1] * (len(times) - len(x.dims)) + list(x.dims)
    apart = [size for pair in zip([1] * len(own), own) for size in pair]
    wide = [size for pair in zip(times, own) for size in pair]
    return of(x.plain.reshape(*apart).broadcast_to(wide).reshape(*dims))


def cut(c: Converter, node: Any, axis: int, part: slice) -> Array:
    """A slice of the operand of `node`, along the graph's axis `axis`."""
    x = c.array(node.args[0])
    rank = len(node.args[0].meta["val"].shape)
    at = x.axis(axis, rank)
    index = [slice(None)] * x.value.rank
    index[at] = part
    return x.with_value(x.value[tuple(index)])


@row("aten.slice.Tensor", view=True, moves=True)
def _slice(c: Converter, node: Any) -> Array:
    given: List[Any] = [*node.args[1:], *(0, 0, None, 1)[len(node.args) - 1 :]]
    axis, start, end, step = given
    shape = node.args[0].meta["val"].shape
    if any(not isinstance(a, (int, type(None))) for a in (start, end, step)):
        raise Refused("its bounds are symbolic")
    if shape[axis] == node.meta["val"].shape[axis]:
        return c.array(node.args[0])
    return cut(c, node, axis, slice(start or 0, end, step))


@row("aten.select.int", view=True, moves=True)
def _select(c: Converter, node: Any) -> Array:
    axis, index = node.args[1], node.args[2]
    size = extent(node.args[0].meta["val"].shape[axis])
    if not isinstance(index, int) or not isinstance(size, int):
        raise Refused("its index or its extent is symbolic")
    index %= size
    dims, folded = c.dims(node)
    return of(cut(c, node, axis, slice(index, index + 1)).plain.reshape(*dims), folded)


@row("aten.cat.default", moves=True)
def _cat(c: Converter, node: Any) -> Array:
    nodes = node.args[0]
    axis = argument(node, 1, "dim", 0)
    arrays = [c.array(item) for item in nodes]
    rank, dtype = len(node.meta["val"].shape), c.dtype(node)
    arrays = [a if str(a.value.dtype) == dtype else a.with_value(a.value.cast(dtype)) for a in arrays]
    if len(arrays) == 1:
        return arrays[0]
    values, order = together(arrays, len(arrays[0].dims))
    at = Array(values[0], order, arrays[0].folded).axis(axis, rank)
    while len(values) > 64:
        values = [concat(values[i : i + 64], at) if len(values[i : i + 64]) > 1 else values[i] for i in range(0, len(values), 64)]
    return Array(concat(values, at), order, arrays[0].folded)


@row("aten.constant_pad_nd.default")
def _pad(c: Converter, node: Any) -> Array:
    x, pads = c.array(node.args[0]), node.args[1]
    fill = float(node.args[2]) if len(node.args) > 2 else 0.0
    rank, value = len(node.meta["val"].shape), x.value
    for i in range(len(pads) // 2):
        at = x.axis(rank - 1 - i, rank)
        low, high = pads[2 * i], pads[2 * i + 1]
        if low < 0 or high < 0:
            raise Refused("it cuts instead of padding")
        sides = []
        for size in (low, high):
            shape = [*value.shape[:at], size, *value.shape[at + 1 :]]
            sides.append(c.builder.scalar(fill, value.dtype).broadcast_to(shape) if size else None)
        parts = [part for part in (sides[0], value, sides[1]) if part is not None]
        value = concat(parts, at) if len(parts) > 1 else value
    return x.with_value(value)


@row("aten.as_strided.default", view=True, moves=True)
def _as_strided(c: Converter, node: Any) -> Array:
    """All elements of a row-major tensor, with other axes."""
    sizes, strides = list(node.args[1]), list(node.args[2])
    offset = argument(node, 3, "storage_offset")
    val = node.args[0].meta["val"]
    if not all(isinstance(number, int) for number in (*sizes, *strides, *val.shape)):
        raise Refused("its strides are symbolic")
    order = sorted(range(len(sizes)), key=lambda i: (-strides[i], sizes[i] != 1))
    laid = [sizes[i] for i in order]
    whole = math.prod(laid) == math.prod(val.shape) and _row_major(laid, [strides[i] for i in order])
    begin = val.storage_offset()
    if offset is not None and not (isinstance(offset, int) and isinstance(begin, int) and offset == begin):
        raise Refused("it begins elsewhere in memory than what it views")
    if not whole or not _row_major(val.shape, val.stride()):
        raise Refused("it is no other order of all elements")
    value = c.array(node.args[0]).plain.reshape(*laid)
    return Array(value, tuple(sorted(range(len(order)), key=lambda i: order[i])))


def _row_major(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    for size, stride in zip(reversed(sizes), reversed(strides)):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


@row("aten.embedding.default", rows_by=True)
def _embedding(c: Converter, node: Any) -> Array:
    """Rows of a table. No id is negative."""
    table, ids = c.array(node.args[0]), c.ids(node.args[1])
    if table.folded:
        raise Refused("its table has rows of M")
    return of(table.plain.gather(ids.plain, 0), c.dims(node)[1])
