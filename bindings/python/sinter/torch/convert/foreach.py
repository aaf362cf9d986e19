"""Operators on lists of tensors, as optimisers use them: each computes its tensors one by one."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence, Tuple

from ..._builder import Value
from ..._functions import exp, log, reciprocal, rsqrt, sqrt
from ..._operators import maximum, minimum
from .arrays import Array
from .converter import LIST, Converter, target_of
from .op_table import TABLE, Handler, Row, elementwise


class _Item:
    """One tensor of a list, as a separate node that calls no operator."""

    op = "item"

    def __init__(self, val: Any) -> None:
        self.meta = {"val": val}


def is_list(node: Any) -> bool:
    return target_of(node).startswith(LIST)


def of_numbers(node: Any) -> bool:
    """Whether all tensors of a list have no axes, such as an optimiser's step counts."""
    return all(not val.shape for val in node.meta["val"])


def _beside(node: Any, argument: Any) -> Sequence[Any]:
    """An operand for each tensor of the result."""
    count = len(node.meta["val"])
    return argument if isinstance(argument, (list, tuple)) else [argument] * count


def _unary(f: Callable[[Value], Value]) -> Handler:
    def convert(c: Converter, node: Any) -> Tuple[Array, ...]:
        return tuple(
            elementwise(c, _Item(val), f, (x,), c.dtype(_Item(val))) for val, x in zip(node.meta["val"], node.args[0])
        )

    return convert


def _binary(f: Callable[[Any, Any], Value]) -> Handler:
    def convert(c: Converter, node: Any) -> Tuple[Array, ...]:
        alpha = node.args[2] if len(node.args) > 2 else node.kwargs.get("alpha", 1)
        g = f if alpha == 1 else (lambda x, y: f(x, y * alpha))
        made: List[Array] = []
        for val, x, y in zip(node.meta["val"], node.args[0], _beside(node, node.args[1])):
            made.append(elementwise(c, _Item(val), g, (x, y), c.dtype(_Item(val))))
        return tuple(made)

    return convert


_UNARY: Dict[str, Callable[[Value], Value]] = {
    "neg": lambda x: -x,
    "abs": abs,
    "exp": exp,
    "log": log,
    "sqrt": sqrt,
    "rsqrt": rsqrt,
    "reciprocal": reciprocal,
}
BINARY: Dict[str, Callable[[Any, Any], Value]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "maximum": maximum,
    "minimum": minimum,
    "clamp_min": maximum,
    "clamp_max": minimum,
}
for _name, _f in _UNARY.items():
    TABLE[f"{LIST}{_name}.default"] = Row(_unary(_f), several=True)
for _name, _g in BINARY.items():
    for _form in ("List", "Scalar", "ScalarList", "Tensor"):
        TABLE[f"{LIST}{_name}.{_form}"] = Row(_binary(_g), several=True)
