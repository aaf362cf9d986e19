"""ATen operators of Inductor's graphs after autograd, as ops of a chain: one row for each operator.

A handler only states what an operator computes. The normal form (src/normal) chooses the form that plans best, moves views
and finds values that are in memory twice.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Tuple

from ... import _functions
from ..._functions import atan2, copysign, cumsum, hypot, reciprocal, rsqrt, sigmoid, sqrt, square, top_k
from ..._value import Value
from ..._operators import equal, maximum, minimum, not_equal, where
from . import attention, bilinear, foreach, functions, products, server_norms, shapes, windows  # noqa: F401  (their rows of the table)
from .arrays import HALVES, Array, Refused, of
from .converter import CAST, Converter, argument, target_of
from .op_table import TABLE as TABLE, Handler, Row, applying, elementwise, number, row, with_alpha
from .shapes import cut


_MOST_LARGEST = 32  # the most results of the library's ``top_k`` in a row


# ---------------------------------------------------------------- Element-wise operators


def _and(x: Value, y: Value) -> Value:
    return x & y


def _or(x: Value, y: Value) -> Value:
    return x | y


#: Arithmetic whose operands are all predicates, as logic: in torch its result is also a predicate.
_OF_PREDICATES = {"add": _or, "mul": _and, "maximum": _or, "minimum": _and}


def _binary(f: Callable[[Any, Any], Value], of_predicates: Optional[Callable[[Value, Value], Value]] = None) -> Handler:
    def convert(c: Converter, node: Any) -> Array:
        if of_predicates is not None and c.dtype(node) == "pred":
            g = of_predicates if argument(node, 2, "alpha", 1) else lambda x, y: x | (y & c.builder.scalar(0.0, "pred"))
            return _of_predicates(g, 2)(c, node)  # type: ignore[no-any-return]
        return applying(with_alpha(node, f), 2)(c, node)  # type: ignore[no-any-return]

    return convert


def _compare(f: Callable[[Any, Any], Value]) -> Handler:
    def convert(c: Converter, node: Any) -> Array:
        tensors = [c.array(a) for a in node.args[:2] if hasattr(a, "all_input_nodes")]
        numbers = [a for a in node.args[:2] if not hasattr(a, "all_input_nodes")]
        floats = any(a.value.dtype.floating for a in tensors) or any(isinstance(a, float) for a in numbers)
        return elementwise(c, node, f, node.args[:2], "f32" if floats else "s32")

    return convert


def _of_predicates(f: Callable[..., Value], arguments: int) -> Handler:
    def convert(c: Converter, node: Any) -> Array:
        if c.dtype(node) != "pred":
            raise Refused("bits of integers")

        def as_pred(x: Any) -> Value:
            if not isinstance(x, Value):
                return c.builder.scalar(float(bool(x)), "pred")
            return x if str(x.dtype) == "pred" else x.cast("pred")

        return elementwise(c, node, lambda *values: f(*map(as_pred, values)), node.args[:arguments])

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
    return elementwise(c, node, f, node.args[:1], c.dtype(node))


def _clamp(c: Converter, node: Any) -> Array:
    given = [argument(node, i, name) for i, name in ((1, "min"), (2, "max"))]

    def f(x: Value, *bounds: Any) -> Value:
        left = list(bounds)
        for bound, g in zip(given, (maximum, minimum)):
            if bound is not None:
                x = g(x, left.pop(0))
        return x

    return elementwise(c, node, f, [node.args[0], *(bound for bound in given if bound is not None)], c.dtype(node))


#: Ops of a chain that have torch's names.
_NAMED = (
    "relu exp expm1 exp2 log log1p log2 log10 sqrt rsqrt reciprocal square sigmoid erf erfc floor ceil round"
    " sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"
).split()
for _name, _f in {
    "neg": lambda x: -x,
    "abs": abs,
    "silu": lambda x: x * sigmoid(x),
    **{name: getattr(_functions, name) for name in _NAMED},
}.items():
    TABLE[f"aten.{_name}.default"] = Row(applying(_f))
for _name, _g in foreach.BINARY.items():
    for _form in ("Tensor", "Scalar", "default"):
        TABLE[f"aten.{_name}.{_form}"] = Row(_binary(_g, _OF_PREDICATES.get(_name)))


def _scaled(name: str) -> Handler:
    """Multiplies or divides by a number. If only the product of q and k reads the result, that product is scaled instead, by its own kernel."""
    convert = _binary(foreach.BINARY[name], _OF_PREDICATES.get(name))

    def scaled(c: Converter, node: Any) -> Array:
        number, scores = node.args[1], c.scores_of(node)
        if scores is None:
            return convert(c, node)  # type: ignore[no-any-return]
        c.scales[scores] = c.scales.get(scores, 1.0) * (number if name == "mul" else 1 / number)
        return c.array(node.args[0])

    return scaled


for _name in ("mul", "div"):
    TABLE[f"aten.{_name}.Tensor"] = TABLE[f"aten.{_name}.Scalar"] = Row(_scaled(_name))
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
TABLE["aten.isnan.default"] = Row(applying(lambda x: not_equal(x, x), 1, ""))
TABLE["prims.fma.default"] = Row(applying(lambda x, y, z: x * y + z, 3))
for _name, _f in {"logical_not": lambda x: ~x, "bitwise_not": lambda x: ~x}.items():
    TABLE[f"aten.{_name}.default"] = Row(_of_predicates(_f, 1))
for _name, _g in {"and": _and, "or": _or, "xor": lambda x, y: (x | y) & ~(x & y)}.items():
    for _form in (f"logical_{_name}.default", f"bitwise_{_name}.Tensor", f"bitwise_{_name}.Scalar"):
        TABLE[f"aten.{_form}"] = Row(_of_predicates(_g, 2))
TABLE["aten.pow.Tensor_Scalar"] = Row(_power)
TABLE["aten.pow.Scalar"] = Row(lambda c, node: elementwise(c, node, lambda x: c.builder.scalar(node.args[0]) ** x, node.args[1:2], c.dtype(node)))
TABLE["aten.pow.Tensor_Tensor"] = Row(_binary(lambda x, y: x**y))
TABLE["aten.atan2.default"], TABLE["aten.hypot.default"] = Row(_binary(atan2)), Row(_binary(hypot))
TABLE["aten.copysign.Tensor"] = TABLE["aten.copysign.Scalar"] = Row(_binary(copysign))
for _form in ("default", "Tensor"):
    TABLE[f"aten.clamp.{_form}"] = Row(_clamp)


@row("aten.where.self")
def _where(c: Converter, node: Any) -> Array:
    dtype = c.dtype(node)

    def chosen(x: Any) -> Any:
        return number(x, dtype) if isinstance(x, Value) else x

    return elementwise(c, node, lambda condition, a, b: where(condition, chosen(a), chosen(b)), node.args[:3])


@row(CAST)
def _cast(c: Converter, node: Any) -> Array:
    x, dtype = c.array(node.args[0]), c.dtype(node)
    return x if str(x.value.dtype) == dtype and dtype not in HALVES else x.with_value(x.value.cast(dtype))


@row("aten.glu.default")
def _glu(c: Converter, node: Any) -> Array:
    axis = argument(node, 1, "dim", -1)
    size = node.args[0].meta["val"].shape[axis]
    if not isinstance(size, int):
        raise Refused("it halves a symbolic extent")
    x, gate = cut(c, node, axis, slice(0, size // 2)), cut(c, node, axis, slice(size // 2, size))
    return x.with_value(x.value * sigmoid(gate.value))


# ---------------------------------------------------------------- Reductions


def reduced_axes(node: Any) -> List[int]:
    """The axes that a reduction names, or all if it does not name any; but `any` over an empty list reduces nothing."""
    given = argument(node, 1, "dim")
    if given is None or given == [] and not target_of(node).startswith("aten.any."):
        return list(range(len(node.args[0].meta["val"].shape)))
    return [given] if isinstance(given, int) else list(given)


def _axes(node: Any, x: Array) -> Tuple[int, ...]:
    """Axes of x's value that `node` reduces."""
    rank, chosen = len(node.args[0].meta["val"].shape), reduced_axes(node)
    if not rank or x.folded and len(chosen) == rank:  # a tensor without axes also accepts axis 0 or -1
        return tuple(range(x.value.rank))
    return tuple(sorted({x.axis(axis, rank) for axis in chosen}))


def _reduced(c: Converter, x: Array, value: Value, axes: Tuple[int, ...], keep: bool, result: Any) -> Array:
    """`value`, reduced over `axes` of x's order of memory, as the graph's value `result`."""
    dims, folded = c.rows.fold(result.shape)
    if keep and len(x.order) == len(dims):
        return Array(value, x.order, folded)
    if keep:  # M, which several axes of the graph make up, has extent 1 now
        return of(value.reshape(*dims), folded)
    left = [axis for axis in x.order if axis not in axes]
    return Array(value, tuple(sorted(left).index(axis) for axis in left), folded)


def _reduce(kind: str) -> Handler:
    def convert(c: Converter, node: Any) -> Array:
        x = c.array(node.args[0])
        keep = bool(argument(node, 2, "keepdim", False))
        axes, dtype = _axes(node, x), c.dtype(node)
        value = number(x.value, "f32" if kind == "mean" else dtype)
        if not axes:
            value = value if str(value.dtype) == dtype else value.cast(dtype)
        elif kind == "any" or kind in ("max", "min") and str(value.dtype) == "pred":
            value = value if str(value.dtype) == "pred" else value.cast("pred")
            value = getattr(value.cast("s32"), "min" if kind == "min" else "max")(axes, keep).cast("pred")
        elif str(value.dtype) == "pred":
            raise Refused(f"{kind} of predicates")
        else:
            value = getattr(value, kind)(axes, keepdims=keep)
        return _reduced(c, x, value, axes, keep, node.meta["val"])

    return convert


for _name, _kind in {"sum": "sum", "mean": "mean", "amax": "max", "amin": "min", "any": "any"}.items():
    for _form in ("default", "dim", "dims", "dim_IntList"):
        TABLE[f"aten.{_name}.{_form}"] = Row(_reduce(_kind))
TABLE["aten.max.default"], TABLE["aten.min.default"] = Row(_reduce("max")), Row(_reduce("min"))


def _place(c: Converter, value: Value, kind: str, axis: int, keep: bool) -> Value:
    """The index of the first of the largest or least values along an axis. A NaN is the largest and the least value."""
    found = equal(value, getattr(value, kind)((axis,), keepdims=True))
    found = found | not_equal(value, value) if value.dtype.floating else found
    size = value.shape[axis]
    places = c.builder.iota("s32", [size if i == axis else 1 for i in range(value.rank)], axis)
    return where(found, places, size).min((axis,), keepdims=keep)


def _chosen(kind: str) -> Handler:
    """The largest or least values along an axis, and the index of each."""

    def convert(c: Converter, node: Any) -> Tuple[Optional[Array], Optional[Array]]:
        x, keep = c.array(node.args[0]), bool(argument(node, 2, "keepdim", False))
        axis = _axis_with_places(x, node, node.args[1])
        value = number(x.value, "s32")
        read = {user.args[1] for user in node.users}  # a result that nobody reads is not computed
        first = second = None
        if 0 in read:
            chosen = getattr(value, kind)((axis,), keepdims=keep)
            chosen = chosen.cast("pred") if str(x.value.dtype) == "pred" else chosen
            first = _reduced(c, x, chosen, (axis,), keep, node.meta["val"][0])
        if 1 in read:
            second = _reduced(c, x, _place(c, value, kind, axis, keep), (axis,), keep, node.meta["val"][1])
        return first, second

    return convert


def _axis_with_places(x: Array, node: Any, axis: int) -> int:
    """The axis of x's value that is axis `axis` of the node's operand.

    Raises:
        Refused: for one whose places are not numbers of a chain.
    """
    rank = len(node.args[0].meta["val"].shape)
    own = x.axis(axis, rank) if rank else -1
    if own < 0 or not 0 < x.value.shape[own]:
        raise Refused("it reduces over M, or no axis")
    return own


def _argument_of(kind: str) -> Handler:
    def convert(c: Converter, node: Any) -> Array:
        x, keep = c.array(node.args[0]), bool(argument(node, 2, "keepdim", False))
        axis = argument(node, 1, "dim")
        if axis is not None:
            own = _axis_with_places(x, node, axis)
            return _reduced(c, x, _place(c, number(x.value, "s32"), kind, own, keep), (own,), keep, node.meta["val"])
        if x.folded or not x.value.rank:
            raise Refused("it reduces over M, or no axis")
        place = _place(c, number(x.plain, "s32").reshape(math.prod(x.dims)), kind, 0, False)
        return of(place.reshape(*[1] * x.value.rank) if keep else place)

    return convert


for _name, _kind in (("max", "max"), ("min", "min")):
    TABLE[f"aten.{_name}.dim"] = Row(_chosen(_kind), several=True, stores=True)
    TABLE[f"aten.arg{_name}.default"] = Row(_argument_of(_kind), stores=True)


def _along_last(x: Array, axis: int) -> "Tuple[Value, Array]":
    """x's value with `axis` last, and the array that has it."""
    order = [i for i in range(x.value.rank) if i != axis] + [axis]
    value = x.value if axis == x.value.rank - 1 else x.value.transpose(*order)
    return value, x._replace(value=value, order=tuple(order.index(i) for i in x.order))


@row("aten.topk.default", several=True, stores=True)
def _topk(c: Converter, node: Any) -> Tuple[Optional[Array], Optional[Array]]:
    given = dict(zip(("dim", "largest"), node.args[2:]), **node.kwargs)
    x = c.array(node.args[0])
    axis = _axis_with_places(x, node, given.get("dim", -1))
    if not given.get("largest", True):
        raise Refused("the least values")
    if not 1 <= node.args[1] <= _MOST_LARGEST:
        raise Refused(f"the {node.args[1]} largest values; there are kernels for 1 to {_MOST_LARGEST}")
    value, lying = _along_last(x.with_value(number(x.value, "s32")), axis)
    places = top_k(value, node.args[1])
    read = {user.args[1] for user in node.users}
    chosen = value.gather(places, -1) if 0 in read else None
    if chosen is not None and str(x.value.dtype) == "pred":
        chosen = chosen.cast("pred")
    return None if chosen is None else lying.with_value(chosen), lying.with_value(places) if 1 in read else None


@row("aten.cumsum.default")
def _cumsum(c: Converter, node: Any) -> Array:
    x, rank, dtype = c.array(node.args[0]), len(node.args[0].meta["val"].shape), c.dtype(node)
    value = number(x.value, dtype)
    if not rank:
        return x.with_value(value)
    value, lying = _along_last(x.with_value(value), x.axis(node.args[1], rank))
    return lying.with_value(cumsum(value))


def _variance(c: Converter, node: Any, with_mean: bool) -> Any:
    x = c.array(node.args[0])
    correction = node.kwargs.get("correction", 1)
    correction = 1 if correction is None else correction
    axes = _axes(node, x)
    count = math.prod(x.value.shape[axis] for axis in axes)
    if count <= 0 or any(not isinstance(x.value.shape[a], int) or x.value.shape[a] < 0 for a in axes):
        raise Refused("it reduces over M")
    if count <= correction:
        raise Refused(f"a variance of {count} values with correction {correction}")
    keep = bool(node.kwargs.get("keepdim", False))
    wide = x.value.cast("f32")
    results = node.meta["val"] if with_mean else [node.meta["val"]]
    read = {user.args[1] for user in node.users} if with_mean else {0}  # an op without a reader is not part of the chain
    found: List[Optional[Array]] = [None, None]
    if keep or 0 in read:
        mean = wide.mean(axes, keepdims=True)
    if 0 in read:
        variance = square(wide - mean).mean(axes, keepdims=keep)
        if correction:
            variance = variance * (count / (count - correction))
        found[0] = _reduced(c, x, variance, axes, keep, results[0])
    if 1 in read:
        found[1] = _reduced(c, x, mean if keep else wide.mean(axes), axes, keep, results[1])
    return tuple(found) if with_mean else found[0]


TABLE["aten.var_mean.correction"] = Row(lambda c, node: _variance(c, node, True), several=True)
TABLE["aten.var.correction"] = Row(lambda c, node: _variance(c, node, False))


@row("getitem", view=True, moves=True)
def _getitem(c: Converter, node: Any) -> Array:
    found = c.get(node.args[0])
    if not isinstance(found, tuple):
        raise Refused("a result of an operator that is left out")
    result = found[node.args[1]]
    assert isinstance(result, Array)
    return result
