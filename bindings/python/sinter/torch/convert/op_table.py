"""The backend's table of ATen operators, with one row for each, and functions that handlers share."""

from __future__ import annotations

from typing import Any, Callable, Collection, Dict, List, NamedTuple, Optional, Sequence

from ..._value import Value
from .arrays import HALVES, Array, aligned, together
from .converter import Converter, argument, target_of

Handler = Callable[[Converter, Any], Any]


class Row(NamedTuple):
    """The backend's facts about an operator.

    Attributes:
        convert: (converter, node) -> Array, or several in a tuple.
        view: it computes nothing, and costs nothing at a part's border.
        moves: each element of its result is an element of an operand.
        product: it multiplies matrices or correlates images.
        several: its value is several tensors.
        first: it has several results, and only the first is converted.
        stores: it reads its operands only from memory, in the 16 bits that the graph gives them.
        rows_by: it reads rows of its first argument by the ids of its second.
        reads: (node, nodes of its part) -> the nodes that its handler asks for, if these are not all that the node reads.
    """

    convert: Handler
    view: bool = False
    moves: bool = False
    product: bool = False
    several: bool = False
    first: bool = False
    stores: bool = False
    rows_by: bool = False
    reads: Optional[Callable[[Any, Collection[Any]], Sequence[Any]]] = None


TABLE: Dict[str, Row] = {}


def is_view(node: Any) -> bool:
    """Whether a node computes nothing, and costs nothing at a part's border."""
    return target_of(node) in TABLE and TABLE[target_of(node)].view


def viewed(node: Any) -> Any:
    """The node whose value a node shows by views; the node itself, if it is not a view."""
    while is_view(node):
        node = node.args[0]
    return node


def row(*names: str, **traits: Any) -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        for name in names:
            TABLE[name] = Row(handler, **traits)
        return handler

    return add


def applying(f: Callable[..., Value], count: int = 1, dtype: Optional[str] = None) -> Handler:
    """`f` of the first `count` operands, element by element. `dtype`: see ``elementwise``; by default the result's."""
    return lambda c, node: elementwise(c, node, f, node.args[:count], c.dtype(node) if dtype is None else dtype)


def with_alpha(node: Any, f: Callable[[Any, Any], Value]) -> Callable[[Any, Any], Value]:
    """`f`, whose second operand is multiplied by the node's alpha."""
    alpha = argument(node, 2, "alpha", 1)
    return f if alpha == 1 else (lambda x, y: f(x, y * alpha))


def elementwise(c: Converter, node: Any, f: Callable[..., Value], arguments: Sequence[Any], dtype: str = "") -> Array:
    """`f` of the operands, broadcast to the node's extents. `dtype`: integers and predicates are first converted to it."""
    val = node.meta["val"]
    dims, folded = c.dims(node)
    operands: List[Any] = []
    for argument in arguments:
        found = c.get(argument)
        if isinstance(found, Array):
            rank = len(argument.meta["val"].shape)
            found = aligned(found, len(dims), folded, len(val.shape), rank)
            found = found.with_value(number(found.value, dtype))
        elif dtype in ("f32", *HALVES):
            found = float(found)
        operands.append(found)
    values, order = together(operands, len(dims))
    result = f(*values)
    target = tuple(dims[order.index(i)] for i in range(len(order)))
    if result.shape != target:
        result = result.broadcast_to(target)
    return Array(result, order, folded)


def number(value: Value, dtype: str) -> Value:
    """An integer or a predicate as an operand of arithmetic in `dtype`."""
    own = str(value.dtype)
    if dtype == "s32" and own == "pred":
        return value.cast("s32")
    if dtype in ("f32", *HALVES) and own in ("s32", "pred"):
        return value.cast("f32")
    return value
