"""Functions of numbers that no op of a chain computes: each is said by several, as exactly as torch computes it.

A form is right for every argument that torch takes: no step overflows, cancels or makes a NaN where the result has none.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict

from ..._value import Value
from ..._functions import copysign, exp2, floor, fmod, trunc
from ..._operators import equal, not_equal, where
from .arrays import Array, Refused
from .converter import Converter
from .op_table import TABLE, Handler, Row, applying


def _sign(x: Value) -> Value:
    """0 of a NaN."""
    if str(x.dtype) == "s32":
        return (x > 0).cast("s32") - (x < 0).cast("s32")
    return (x > 0.0).cast("f32") - (x < 0.0).cast("f32")


def _trunc(x: Value) -> Value:
    return x if str(x.dtype) == "s32" else trunc(x)


def _below(rest: Value, y: Any) -> Value:
    """Whether the quotient with remainder `rest` of a division by y, cut towards zero, is above the floor of the quotient."""
    return not_equal(rest, 0.0) & not_equal(copysign(y, rest), y)


def _remainder(x: Any, y: Any) -> Value:
    """With the sign of y."""
    rest = fmod(x, y)
    return where(_below(rest, y), rest + y, rest)


def _floor_quotient(x: Any, y: Any) -> Value:
    """The floor of the exact quotient: x / y may have been rounded up to an integer."""
    quotient: Value = x / y
    if not isinstance(y, Value) and y == 0:
        return quotient
    rest = fmod(x, y)
    whole = (x - rest) / y
    whole = where(_below(rest, y), whole - 1.0, whole)
    near = floor(whole)
    near = where(whole - near > 0.5, near + 1.0, near)
    near = where(equal(whole, 0.0), copysign(0.0, quotient), near)
    return where(equal(y, 0.0), quotient, near) if isinstance(y, Value) else near


_QUOTIENTS: Dict[Any, Callable[[Any, Any], Value]] = {
    None: lambda x, y: x / y,
    "trunc": lambda x, y: trunc(x / y),
    "floor": _floor_quotient,
}


def _of_two(f: Callable[[Any, Any], Value]) -> Handler:
    def convert(c: Converter, node: Any) -> Array:
        if c.dtype(node) in ("s32", "pred"):
            raise Refused("a division of integers")
        return applying(f, 2)(c, node)  # type: ignore[no-any-return]

    return convert


TABLE["aten.sign.default"], TABLE["aten.trunc.default"] = Row(applying(_sign)), Row(applying(_trunc))
TABLE["aten.isinf.default"] = Row(applying(lambda x: equal(abs(x), math.inf), 1, "f32"))
TABLE["aten.signbit.default"] = Row(applying(lambda x: copysign(1.0, x) < 0.0, 1, "f32"))
for _form in ("Tensor", "Scalar", "Scalar_Tensor"):
    TABLE[f"aten.remainder.{_form}"] = Row(_of_two(_remainder))
for _form in ("Tensor", "Scalar"):
    TABLE[f"aten.fmod.{_form}"] = Row(_of_two(fmod))
    TABLE[f"aten.div.{_form}_mode"] = Row(lambda c, node: _of_two(_QUOTIENTS[node.kwargs["rounding_mode"]])(c, node))
TABLE["aten.ldexp.Tensor"] = Row(_of_two(lambda x, y: x * exp2(y)))
