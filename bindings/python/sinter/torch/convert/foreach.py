"""Operators on lists of tensors, as optimisers use them: each computes its tensors one by one."""

from __future__ import annotations

from typing import Any, Callable, Dict, Sequence, Tuple

from ..._value import Value
from ..._functions import exp, log, reciprocal, rsqrt, sqrt
from ..._operators import maximum, minimum
from .arrays import Array
from .converter import LIST, Converter, target_of
from .op_table import TABLE, Handler, Row, elementwise, with_alpha


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


def _applying(f: Callable[..., Value], count: int) -> Handler:
    """`f` of the first `count` operands, tensor by tensor."""

    def convert(c: Converter, node: Any) -> Tuple[Array, ...]:
        g = with_alpha(node, f) if count == 2 else f
        operands = zip(*(_beside(node, argument) for argument in node.args[:count]))
        return tuple(elementwise(c, _Item(val), g, each, c.dtype(_Item(val))) for val, each in zip(node.meta["val"], operands))

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
    TABLE[f"{LIST}{_name}.default"] = Row(_applying(_f, 1), several=True)
for _name, _g in BINARY.items():
    for _form in ("List", "Scalar", "ScalarList", "Tensor"):
        TABLE[f"{LIST}{_name}.{_form}"] = Row(_applying(_g, 2), several=True)
