"""Values of a chain as a graph of torch sees them: axes in another order, leading axes folded into M."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from ..._dtype import FACTS, DType
from ..._shape import M
from ..._value import Value

Number = Union[int, float]

#: A chain's name for each element type of torch. Only ids of rows may be s64.
DTYPES: Dict[str, str] = {
    f"torch.{facts.name}": str(dtype) for dtype, facts in FACTS.items() if dtype not in (DType.S8, DType.S64)
}
HALVES = ("bf16", "f16")


class Refused(Exception):
    """A node that no chain can hold, and why."""

    def __init__(self, why: str, node: Any = None) -> None:
        super().__init__(why)
        self.why = why
        self.node = node


class Array(NamedTuple):
    """A value of a chain and how its axes lie.

    Attributes:
        value: with its axes in the order of memory.
        order: axis i of the graph's value is axis ``order[i]`` of `value`.
        folded: how many leading axes of the graph's value are one axis here, of extent M; 0: no axis is M.
    """

    value: Value
    order: Tuple[int, ...]
    folded: int = 0

    @property
    def dims(self) -> Tuple[Any, ...]:
        """Extents in the graph's order."""
        return tuple(self.value.shape[axis] for axis in self.order)

    @property
    def plain(self) -> Value:
        """The value with the axes in the graph's order."""
        return self.value if self.in_order else self.value.transpose(*self.order)

    @property
    def in_order(self) -> bool:
        return self.order == tuple(range(len(self.order)))

    def axis(self, axis: int, rank: int) -> int:
        """The axis of `value` that is axis `axis` of the graph's value of rank `rank`."""
        axis %= max(rank, 1)
        if self.folded:
            if axis < self.folded:
                raise Refused("it works along an axis that is part of M")
            axis -= self.folded - 1
        return self.order[axis]

    def with_value(self, value: Value) -> "Array":
        """Another value of the same extents."""
        return self._replace(value=value)


def of(value: Value, folded: int = 0) -> Array:
    """An array whose axes are in the graph's order."""
    return Array(value, tuple(range(value.rank)), folded)


def extent(size: Any) -> Any:
    """An int, or the expression of a symbol."""
    if isinstance(size, int):
        return size
    expression = size.node.expr
    return int(expression) if expression.is_number else expression


class Rows:
    """Which product of symbols is M in a part: a graph has many symbols, a chain has one.

    Attributes:
        symbol: the expression that is M; None where all extents are numbers.
    """

    def __init__(self, symbol: Any = None) -> None:
        self.symbol = symbol

    @classmethod
    def of(cls, shapes: Sequence[Sequence[Any]]) -> "Rows":
        """The product of leading extents, up to the last symbol, that is the number of rows of most shapes."""
        counted: Dict[Any, int] = {}
        for shape in shapes:
            sizes = [extent(size) for size in shape]
            last = max((i for i, size in enumerate(sizes) if not isinstance(size, int)), default=-1)
            if last >= 0:
                product = sizes[0]
                for size in sizes[1 : last + 1]:
                    product = product * size
                counted[product] = counted.get(product, 0) + 1
        if not counted:
            return cls()
        return max((cls(symbol) for symbol in counted), key=lambda rows: (sum(map(rows.folds, shapes)), counted[rows.symbol]))

    def folds(self, shape: Sequence[Any]) -> bool:
        """Whether a chain can have a value of these extents."""
        return self.why_not([shape]) is None

    def why_not(self, shapes: Sequence[Sequence[Any]]) -> Optional[str]:
        """Names the first extents that no value of a chain can have; None if a chain can have all."""
        for shape in shapes:
            try:
                self.fold(shape)
            except Refused as refused:
                return refused.why
        return None

    def fold(self, shape: Sequence[Any]) -> Tuple[Tuple[Any, ...], int]:
        """Extents of the chain's value, and how many leading axes became the axis M.

        Raises:
            Refused: for symbols that are not M.
        """
        sizes = [extent(size) for size in shape]
        dims = tuple(M if size == self.symbol else size for size in sizes)
        if all(isinstance(size, int) for size in dims):
            return dims, 0
        product: Any = 1
        for i, size in enumerate(sizes):
            product = product * size
            rest = sizes[i + 1 :]
            if product == self.symbol and all(isinstance(size, int) for size in rest):
                return (M, *rest), i + 1
        told = "x".join(str(size) for size in sizes)
        raise Refused(f"extents {told} are no rows of {self.symbol}")


def aligned(array: Array, dims: int, folded: int, rank: int, own_rank: int) -> Array:
    """`array` with axes that broadcast against a value of `dims` axes in the chain and `rank` in the graph, of which `folded` are M."""
    if folded < 2 or array.folded == folded:
        return array
    extra = max(0, folded - (rank - own_rank))  # its axes that match axes of M
    own = array.dims
    if array.folded or any(size != 1 for size in own[:extra]):
        raise Refused("it is spread along a part of M")
    return of(array.plain.reshape(*own[extra:])) if extra else array


def together(operands: Sequence[Any], rank: int) -> Tuple[List[Any], Tuple[int, ...]]:
    """Operands of an element-wise op with their axes in one order, and that order. They broadcast as in numpy.

    `rank`: axes of the result.
    """
    order = next((a.order for a in operands if isinstance(a, Array) and len(a.order) == rank and not a.in_order), None)
    if order is None:
        return [a.plain if isinstance(a, Array) else a for a in operands], tuple(range(rank))
    return [_laid(a, order) if isinstance(a, Array) else a for a in operands], order


def _laid(array: Array, order: Tuple[int, ...]) -> Value:
    """The value with its axes in the order of `order`, aligned at the last axis as numpy broadcasts."""
    if array.order == order:
        return array.value
    if not array.order:
        return array.value
    rank = len(order)
    missing = rank - len(array.order)
    dims = (1,) * missing + array.dims
    laid: List[Optional[Any]] = [None] * rank
    for i, axis in enumerate(order):
        laid[axis] = dims[i]
    first = next((i for i, size in enumerate(laid) if size != 1), rank - 1)
    wide = [i for i, size in enumerate(dims) if size != 1]
    if [order[i] for i in wide] == sorted(order[i] for i in wide):  # only extents of 1 change places
        value = array.plain
        shape = tuple(laid[first:])
        return value if value.shape == shape else value.reshape(*shape)
    full = array.plain if not missing else array.plain.reshape(*dims)
    inverse = sorted(range(rank), key=lambda i: order[i])
    return full.transpose(*inverse)
