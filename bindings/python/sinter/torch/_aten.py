"""ATen operators, as a graph of Inductor has them behind autograd, in ops of a chain: one row an operator.

A handler only says what an operator computes. Which spelling of it plans best, where views go and what lies in memory twice
is the normal form's work (src/normal).
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from .._functions import (
    ceil,
    cos,
    erf,
    exp,
    expm1,
    floor,
    log,
    log1p,
    reciprocal,
    relu,
    round as round_half_even,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    square,
    tanh,
)
from .._builder import Value
from .._operators import concat, conv2d, equal, maximum, minimum, not_equal, where
from ._arrays import HALVES, Array, Refused, aligned, extent, of, together
from ._convert import Converter, target_of

Handler = Callable[[Converter, Any], Any]


class Row(NamedTuple):
    """What the backend knows of an operator.

    Attributes:
        convert: (converter, node) -> Array, or several in a tuple.
        view: it computes nothing, and costs nothing at a part's border.
        moves: no element of its result is new.
        product: it multiplies matrices or correlates images.
        several: its value is several tensors.
    """

    convert: Handler
    view: bool = False
    moves: bool = False
    product: bool = False
    several: bool = False


TABLE: Dict[str, Row] = {}


def _row(*names: str, **traits: bool) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        for name in names:
            TABLE[name] = Row(handler, **traits)
        return handler

    return add


# ---------------------------------------------------------------- Element-wise operators


def _elementwise(c: Converter, node: Any, f: Callable[..., Value], arguments: Sequence[Any], dtype: str = "") -> Array:
    """`f` of the operands, numbers as `dtype` is, beside each other. `dtype`: what they become first, where they are no floats."""
    val = node.meta["val"]
    dims, folded = c.dims(node)
    operands: List[Any] = []
    for argument in arguments:
        found = c.get(argument)
        if isinstance(found, Array):
            rank = len(argument.meta["val"].shape)
            found = aligned(found, len(dims), folded, len(val.shape), rank)
            found = found.with_value(_number(found.value, dtype))
        elif dtype in ("f32", *HALVES):
            found = float(found)
        operands.append(found)
    values, order = together(c.builder, operands, len(dims))
    result = f(*values)
    target = tuple(dims[order.index(i)] for i in range(len(order)))
    if result.shape != target:
        result = result.broadcast_to(target)
    return Array(result, order, folded)


def _number(value: Value, dtype: str) -> Value:
    """An integer or a predicate as an operand of arithmetic in `dtype`."""
    own = str(value.dtype)
    if dtype == "s32" and own == "pred":
        return value.cast("s32")
    if dtype in ("f32", *HALVES) and own in ("s32", "pred"):
        return value.cast("f32")
    return value


def _unary(f: Callable[[Value], Value]) -> Handler:
    return lambda c, node: _elementwise(c, node, f, node.args[:1], c.dtype(node))


def _binary(f: Callable[[Any, Any], Value]) -> Handler:
    def convert(c: Converter, node: Any) -> Array:
        alpha = node.args[2] if len(node.args) > 2 else node.kwargs.get("alpha", 1)
        g = f if alpha == 1 else (lambda x, y: f(x, y * alpha))
        return _elementwise(c, node, g, node.args[:2], c.dtype(node))

    return convert


def _compare(f: Callable[[Any, Any], Value]) -> Handler:
    def convert(c: Converter, node: Any) -> Array:
        tensors = [c.array(a) for a in node.args[:2] if hasattr(a, "all_input_nodes")]
        numbers = [a for a in node.args[:2] if not hasattr(a, "all_input_nodes")]
        floats = any(a.value.dtype.floating for a in tensors) or any(isinstance(a, float) for a in numbers)
        return _elementwise(c, node, f, node.args[:2], "f32" if floats else "s32")

    return convert


def _of_predicates(f: Callable[..., Value], arguments: int) -> Handler:
    def convert(c: Converter, node: Any) -> Array:
        if c.dtype(node) != "pred":
            raise Refused("bits of integers")
        as_pred = lambda x: x if str(x.dtype) == "pred" else x.cast("pred")
        return _elementwise(c, node, lambda *values: f(*map(as_pred, values)), node.args[:arguments])

    return convert


def _power(c: Converter, node: Any) -> Array:
    exponent = node.args[1]
    special: Dict[float, Callable[[Value], Value]] = {
        1.0: lambda x: x * 1.0,
        2.0: square,
        3.0: lambda x: square(x) * x,
        0.5: sqrt,
        -0.5: rsqrt,
        -1.0: reciprocal,
    }
    if c.dtype(node) == "s32" and exponent != 2:
        raise Refused("a power of integers")
    f = special.get(float(exponent), lambda x: x ** float(exponent))
    return _elementwise(c, node, f, node.args[:1], c.dtype(node))


def _clamp(c: Converter, node: Any) -> Array:
    given = [node.args[i] if len(node.args) > i else node.kwargs.get(name) for i, name in ((1, "min"), (2, "max"))]

    def f(x: Value, *bounds: Any) -> Value:
        left = list(bounds)
        for bound, g in zip(given, (maximum, minimum)):
            if bound is not None:
                x = g(x, left.pop(0))
        return x

    return _elementwise(c, node, f, [node.args[0], *(bound for bound in given if bound is not None)], c.dtype(node))


for _name, _f in {
    "neg": lambda x: -x,
    "abs": abs,
    "relu": relu,
    "exp": exp,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "sqrt": sqrt,
    "rsqrt": rsqrt,
    "tanh": tanh,
    "erf": erf,
    "sigmoid": sigmoid,
    "reciprocal": reciprocal,
    "square": square,
    "sin": sin,
    "cos": cos,
    "floor": floor,
    "ceil": ceil,
    "round": round_half_even,
    "silu": lambda x: x * sigmoid(x),
}.items():
    TABLE[f"aten.{_name}.default"] = Row(_unary(_f))
for _name, _g in {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": maximum,
    "minimum": minimum,
    "clamp_min": maximum,
    "clamp_max": minimum,
}.items():
    for _form in ("Tensor", "Scalar", "default"):
        TABLE[f"aten.{_name}.{_form}"] = Row(_binary(_g))
for _name, _g in {
    "eq": equal,
    "ne": not_equal,
    "lt": lambda x, y: x < y if isinstance(x, Value) else y > x,
    "le": lambda x, y: x <= y if isinstance(x, Value) else y >= x,
    "gt": lambda x, y: x > y if isinstance(x, Value) else y < x,
    "ge": lambda x, y: x >= y if isinstance(x, Value) else y <= x,
}.items():
    for _form in ("Tensor", "Scalar"):
        TABLE[f"aten.{_name}.{_form}"] = Row(_compare(_g))
TABLE["aten.isnan.default"] = Row(lambda c, node: _elementwise(c, node, lambda x: not_equal(x, x), node.args[:1]))
for _name, _f in {"logical_not": lambda x: ~x, "bitwise_not": lambda x: ~x}.items():
    TABLE[f"aten.{_name}.default"] = Row(_of_predicates(_f, 1))
for _name, _g in {"and": lambda x, y: x & y, "or": lambda x, y: x | y}.items():
    TABLE[f"aten.logical_{_name}.default"] = TABLE[f"aten.bitwise_{_name}.Tensor"] = Row(_of_predicates(_g, 2))
TABLE["aten.pow.Tensor_Scalar"] = Row(_power)
TABLE["aten.pow.Tensor_Tensor"] = Row(_binary(lambda x, y: x**y))
for _form in ("default", "Tensor"):
    TABLE[f"aten.clamp.{_form}"] = Row(_clamp)


@_row("aten.where.self")
def _where(c: Converter, node: Any) -> Array:
    def f(condition: Value, a: Any, b: Any) -> Value:
        return where(condition, a, b)

    return _elementwise(c, node, f, node.args[:3])


@_row("prims.convert_element_type.default")
def _cast(c: Converter, node: Any) -> Array:
    x, dtype = c.array(node.args[0]), c.dtype(node)
    return x if str(x.value.dtype) == dtype and dtype not in HALVES else x.with_value(x.value.cast(dtype))


@_row("prims.fma.default")
def _fma(c: Converter, node: Any) -> Array:
    return _elementwise(c, node, lambda x, y, z: x * y + z, node.args[:3], c.dtype(node))


# ---------------------------------------------------------------- Shapes


@_row("aten.clone.default", "aten.alias.default", "aten.detach.default", "aten.lift_fresh_copy.default", moves=True)
def _same(c: Converter, node: Any) -> Array:
    return c.array(node.args[0])


@_row(
    *("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.unsqueeze.default"),
    *("aten.squeeze.dim", "aten.squeeze.dims", "aten.squeeze.default"),
    view=True,
    moves=True,
)
def _reshape(c: Converter, node: Any) -> Array:
    x = c.array(node.args[0])
    dims, folded = c.dims(node)
    if x.dims == dims:
        return x._replace(folded=folded)
    kept = _without_ones(x, dims)
    return of(x.plain.reshape(*dims), folded) if kept is None else kept._replace(folded=folded)


def _without_ones(x: Array, dims: Tuple[Any, ...]) -> Optional[Array]:
    """`x` with other axes of extent 1, where only those differ and the others lie in no plain order."""
    wide = [size for size in x.dims if size != 1]
    if x.in_order or wide != [size for size in dims if size != 1]:
        return None
    places = iter(sorted(range(len(wide)), key=[x.order[i] for i, size in enumerate(x.dims) if size != 1].__getitem__))
    rank_of = {axis: place for place, axis in enumerate(places)}
    counted, ones = 0, sum(size == 1 for size in dims)
    order: List[int] = []
    front = 0
    for size in dims:
        if size == 1:
            order.append(front)
            front += 1
        else:
            order.append(ones + rank_of[counted])
            counted += 1
    shape = [0] * len(dims)
    for i, axis in enumerate(order):
        shape[axis] = dims[i]
    return Array(x.value.reshape(*shape), tuple(order))


@_row("aten.permute.default", "aten.transpose.int", "aten.t.default", view=True, moves=True)
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


@_row("aten.expand.default", view=True, moves=True)
def _expand(c: Converter, node: Any) -> Array:
    def f(x: Value) -> Value:
        return x

    return _elementwise(c, node, f, node.args[:1])


def _cut(c: Converter, node: Any, axis: int, part: slice) -> Array:
    x = c.array(node.args[0])
    rank = len(node.args[0].meta["val"].shape)
    at = x.axis(axis, rank)
    index = [slice(None)] * x.value.rank
    index[at] = part
    return x.with_value(x.value[tuple(index)])


@_row("aten.slice.Tensor", view=True, moves=True)
def _slice(c: Converter, node: Any) -> Array:
    given: List[Any] = [*node.args[1:], *(0, 0, None, 1)[len(node.args) - 1 :]]
    axis, start, end, step = given
    shape = node.args[0].meta["val"].shape
    if any(not isinstance(a, (int, type(None))) for a in (start, end, step)):
        raise Refused("its bounds are symbolic")
    if shape[axis] == node.meta["val"].shape[axis]:
        return c.array(node.args[0])
    return _cut(c, node, axis, slice(start or 0, end, step))


@_row("aten.select.int", view=True, moves=True)
def _select(c: Converter, node: Any) -> Array:
    axis, index = node.args[1], node.args[2]
    size = extent(node.args[0].meta["val"].shape[axis])
    if not isinstance(index, int) or not isinstance(size, int):
        raise Refused("its index or its extent is symbolic")
    index %= size
    dims, folded = c.dims(node)
    return of(_cut(c, node, axis, slice(index, index + 1)).plain.reshape(*dims), folded)


@_row("aten.cat.default", moves=True)
def _cat(c: Converter, node: Any) -> Array:
    nodes = node.args[0]
    axis = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    arrays = [c.array(item) for item in nodes]
    rank, dtype = len(node.meta["val"].shape), c.dtype(node)
    arrays = [a if str(a.value.dtype) == dtype else a.with_value(a.value.cast(dtype)) for a in arrays]
    if len(arrays) == 1:
        return arrays[0]
    values, order = together(c.builder, arrays, len(arrays[0].dims))
    at = Array(values[0], order, arrays[0].folded).axis(axis, rank)
    while len(values) > 64:
        values = [concat(values[i : i + 64], at) if len(values[i : i + 64]) > 1 else values[i] for i in range(0, len(values), 64)]
    return Array(concat(values, at), order, arrays[0].folded)


@_row("aten.constant_pad_nd.default")
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


# ---------------------------------------------------------------- Reductions


def _axes(c: Converter, node: Any, x: Array, given: Any) -> Tuple[int, ...]:
    rank = len(node.args[0].meta["val"].shape)
    chosen = range(rank) if given is None or given == [] else [given] if isinstance(given, int) else given
    if x.folded and len(chosen) == rank:
        return tuple(range(x.value.rank))
    return tuple(sorted({x.axis(axis, rank) for axis in chosen}))


def _reduced(c: Converter, node: Any, x: Array, value: Value, axes: Tuple[int, ...], keep: bool, result: Any) -> Array:
    """`value`, reduced over `axes` of x's order of memory, as the graph's value `result`."""
    dims, folded = c.rows.fold(result.shape)
    if keep:
        return Array(value, x.order, folded)
    left = [axis for axis in x.order if axis not in axes]
    return Array(value, tuple(sorted(left).index(axis) for axis in left), folded)


def _reduce(kind: str) -> Handler:
    def convert(c: Converter, node: Any) -> Array:
        x = c.array(node.args[0])
        given = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
        keep = bool(node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False))
        axes, dtype = _axes(c, node, x, given), c.dtype(node)
        value = _number(x.value, "f32" if kind == "mean" else dtype)
        if kind == "any":
            value = (value if str(value.dtype) == "pred" else value.cast("pred")).cast("s32").max(axes, keep).cast("pred")
        elif str(value.dtype) == "pred":
            raise Refused(f"{kind} of predicates")
        else:
            value = getattr(value, kind)(axes, keepdims=keep)
        return _reduced(c, node, x, value, axes, keep, node.meta["val"])

    return convert


for _name, _kind in {"sum": "sum", "mean": "mean", "amax": "max", "amin": "min", "any": "any"}.items():
    for _form in ("default", "dim", "dims", "dim_IntList"):
        TABLE[f"aten.{_name}.{_form}"] = Row(_reduce(_kind))
TABLE["aten.max.default"], TABLE["aten.min.default"] = Row(_reduce("max")), Row(_reduce("min"))


def _variance(c: Converter, node: Any, with_mean: bool) -> Any:
    x = c.array(node.args[0])
    given = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim")
    correction = node.kwargs.get("correction", 1)
    correction = 1 if correction is None else correction
    axes = _axes(c, node, x, given)
    count = math.prod(x.value.shape[axis] for axis in axes)
    if count <= 0 or any(not isinstance(x.value.shape[a], int) or x.value.shape[a] < 0 for a in axes):
        raise Refused("it reduces over M")
    if count <= correction:
        raise Refused(f"a variance of {count} values with correction {correction}")
    keep = bool(node.kwargs.get("keepdim", False))
    wide = x.value.cast("f32")
    mean = wide.mean(axes, keepdims=True)
    variance = square(wide - mean).mean(axes, keepdims=keep)
    if correction:
        variance = variance * (count / (count - correction))
    results = node.meta["val"] if with_mean else [node.meta["val"]]
    first = _reduced(c, node, x, variance, axes, keep, results[0])
    if not with_mean:
        return first
    return first, _reduced(c, node, x, mean if keep else wide.mean(axes), axes, keep, results[1])


TABLE["aten.var_mean.correction"] = Row(lambda c, node: _variance(c, node, True), several=True)
TABLE["aten.var.correction"] = Row(lambda c, node: _variance(c, node, False))


@_row("getitem", view=True, moves=True)
def _getitem(c: Converter, node: Any) -> Array:
    found = c.get(node.args[0])
    if not isinstance(found, tuple):
        raise Refused("a result of an operator that is left out")
    result = found[node.args[1]]
    assert isinstance(result, Array)
    return result


# ---------------------------------------------------------------- Products


def _operand(c: Converter, node: Any) -> Array:
    """An operand of a product, in the 16 bits that the graph gives it."""
    x, dtype = c.array(node), c.dtype(node)
    return x if str(x.value.dtype) == dtype else x.with_value(x.value.cast(dtype))


def _matrix(x: Array) -> Value:
    """With its last two axes in the graph's order; exchanging them costs a product nothing."""
    rank = len(x.order)
    exchanged = (*range(rank - 2), rank - 1, rank - 2)
    return x.value.T if x.order == exchanged else x.plain


def _product(c: Converter, node: Any, a: Any, b: Any) -> Value:
    left, right = _operand(c, a), _operand(c, b)
    return left.plain @ _matrix(right)


@_row("aten.mm.default", "aten.bmm.default", product=True)
def _mm(c: Converter, node: Any) -> Array:
    return of(_product(c, node, *node.args[:2]), c.dims(node)[1])


@_row("aten.addmm.default", "aten.baddbmm.default", product=True)
def _addmm(c: Converter, node: Any) -> Array:
    if node.kwargs.get("alpha", 1) != 1 or node.kwargs.get("beta", 1) != 1:
        raise Refused("factors of a product")
    bias = c.array(node.args[0])
    return of(_product(c, node, *node.args[1:3]) + bias.plain, c.dims(node)[1])


@_row("aten.convolution.default", product=True)
def _convolution(c: Converter, node: Any) -> Array:
    x, w, bias, stride, padding, dilation = node.args[:6]
    image, weight = _operand(c, x), _operand(c, w)
    if image.folded:
        raise Refused("its images are rows of M")
    to_channels_last, back = (0, 2, 3, 1), (0, 3, 1, 2)

    def move(a: Array) -> Value:
        return a.value if a.order == back else a.plain.transpose(*to_channels_last)

    y = conv2d(move(image), move(weight), stride=stride, padding=padding, dilation=dilation)
    if bias is not None:
        y = y + c.array(bias).plain
    return Array(y, back)
