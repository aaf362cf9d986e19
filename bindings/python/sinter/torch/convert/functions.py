"""Functions of numbers that no op of a chain computes: each is said by several, as exactly as torch computes it.

A form is right for every argument that torch takes: no step overflows, cancels or makes a NaN where the result has none.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict

from ..._builder import Value
from ..._functions import ceil, cos, exp, expm1, floor, log, log1p, reciprocal, sin, sqrt, square
from ..._operators import equal, maximum, minimum, where
from .op_table import TABLE, Handler, Row, elementwise

_LARGE = 1e8  # numbers whose square hides one, and is finite


def _sign(x: Value) -> Value:
    """0 of a NaN."""
    if str(x.dtype) == "s32":
        return (x > 0).cast("s32") - (x < 0).cast("s32")
    return (x > 0.0).cast("f32") - (x < 0.0).cast("f32")


def _trunc(x: Value) -> Value:
    return x if str(x.dtype) == "s32" else where(x < 0.0, ceil(x), floor(x))


def _is_negative(x: Value) -> Value:
    """Also of -0."""
    return (x < 0.0) | (reciprocal(x) < 0.0)


def _with_sign(magnitude: Value, x: Any) -> Value:
    if not isinstance(x, Value):
        return -magnitude if math.copysign(1.0, x) < 0 else magnitude
    return where(_is_negative(x), -magnitude, magnitude)


def _odd(f: Callable[[Value], Value]) -> Callable[[Value], Value]:
    """An odd function by its values at positive numbers."""
    return lambda x: _with_sign(f(abs(x)), x)


def _sinh(x: Value) -> Value:
    """For positive numbers; exp(x) may overflow where the result does not."""
    less, root = expm1(minimum(x, 1.0)), exp(x * 0.5)
    return where(x < 1.0, (less + less / (less + 1.0)) * 0.5, root * 0.5 * root - 0.5 / root / root)


def _cosh(x: Value) -> Value:
    root = exp(abs(x) * 0.5)
    return root * 0.5 * root + 0.5 / root / root


def _asinh(x: Value) -> Value:
    """For positive numbers."""
    small = minimum(x, _LARGE)
    return where(x < _LARGE, log1p(small + square(small) / (1.0 + sqrt(square(small) + 1.0))), log(x) + math.log(2))


def _acosh(x: Value) -> Value:
    less = minimum(x, _LARGE) - 1.0
    return where(x < _LARGE, log1p(less + sqrt(less) * sqrt(less + 2.0)), log(x) + math.log(2))


def _atanh(x: Value) -> Value:
    """For positive numbers."""
    return log1p(x * 2.0 / (1.0 - x)) * 0.5


def _hypot(x: Value, y: Value) -> Value:
    """Infinite if one of the two is infinite and the other is NaN."""
    x, y = abs(x), abs(y)
    most, least = maximum(x, y), minimum(x, y)
    ratio = least / where(equal(most, 0.0), 1.0, most)
    infinite = equal(x, math.inf) | equal(y, math.inf)
    return where(infinite, math.inf, most * sqrt(square(ratio) + 1.0))


_UNARY: Dict[str, Callable[[Value], Value]] = {
    "sign": _sign,
    "trunc": _trunc,
    "tan": lambda x: sin(x) / cos(x),
    "sinh": _odd(_sinh),
    "cosh": _cosh,
    "asinh": _odd(_asinh),
    "acosh": _acosh,
    "atanh": _odd(_atanh),
}


def _unary(f: Callable[[Value], Value]) -> Handler:
    return lambda c, node: elementwise(c, node, f, node.args[:1], c.dtype(node))


for _name, _f in _UNARY.items():
    TABLE[f"aten.{_name}.default"] = Row(_unary(_f))
TABLE["aten.hypot.default"] = Row(lambda c, node: elementwise(c, node, _hypot, node.args[:2], c.dtype(node)))
for _form in ("Tensor", "Scalar"):
    TABLE[f"aten.copysign.{_form}"] = Row(lambda c, node: elementwise(c, node, lambda x, y: _with_sign(abs(x), y), node.args[:2], c.dtype(node)))
