"""Values of a chain under construction, with the operators of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence, Tuple, Union

from ._argument import integer
from ._dtype import DType, DTypeLike
from ._error import invalid
from ._shape import Dim, Shape, axis as _axis, int32s, int64s, shape as _shape

if TYPE_CHECKING:
    from ._builder import Builder

Number = Union[int, float]
Operand = Union["Value", int, float]
Axes = Union[None, int, Sequence[int]]


def _of_two(kind: str) -> "Callable[[Value, Operand], Value]":
    return lambda self, other: self.builder._binary(kind, self, other)


def _reflected(kind: str) -> "Callable[[Value, Number], Value]":
    return lambda self, other: self.builder._binary(kind, other, self)


def _comparing(kind: str) -> "Callable[[Value, Operand], Value]":
    return lambda self, other: self.builder._compare(kind, self, other)


def _of_one(kind: str) -> "Callable[[Value], Value]":
    return lambda self: self.builder._unary(kind, self)


class Value:
    """The result of an operation of a chain under construction. Made by a ``Builder`` and by operators.

    Attributes:
        builder: the chain that it belongs to.
        shape: its extents; ``sinter.M`` among them is the symbol.
        dtype: its element type: a minimum precision, unless a cast made it.
    """

    __slots__ = ("builder", "shape", "dtype", "_id")

    def __init__(self, builder: "Builder", number: int, shape: Shape, dtype: DType) -> None:
        self.builder = builder
        self.shape = shape
        self.dtype = dtype
        self._id = number

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def _number(self) -> int:
        return self._id

    def __repr__(self) -> str:
        return f"<sinter.Value {self.dtype}{list(self.shape)}>"

    def __bool__(self) -> bool:
        raise TypeError("a sinter.Value has no truth value: it is a symbol until the chain is launched")

    # Products.

    def __matmul__(self, other: "Value") -> "Value":
        """[batch.., m, k] @ [batch.., k, n] -> f32 [batch.., m, n]; ``w.T`` of a weight [n, k] costs nothing."""
        return self.builder._matmul(self, other)

    @property
    def T(self) -> "Value":
        """The last two axes exchanged."""
        if self.rank < 2:
            raise invalid(f"T of a value of rank {self.rank}: it needs 2 or more")
        return Transposed(self)

    # Element-wise operators.

    __add__, __radd__ = _of_two("add"), _reflected("add")
    __sub__, __rsub__ = _of_two("sub"), _reflected("sub")
    __mul__, __rmul__ = _of_two("mul"), _reflected("mul")
    __truediv__, __rtruediv__ = _of_two("div"), _reflected("div")
    __pow__, __and__, __or__ = _of_two("pow"), _of_two("and"), _of_two("or")
    __invert__, __neg__, __abs__ = _of_one("not"), _of_one("neg"), _of_one("abs")
    __lt__, __le__ = _comparing("lt"), _comparing("le")
    __gt__, __ge__ = _comparing("gt"), _comparing("ge")

    def __eq__(self, other: object) -> bool:
        raise TypeError("== of sinter.Values gives no value: sinter.equal(a, b) compares their elements, `is` asks for the same object")

    def __ne__(self, other: object) -> bool:
        raise TypeError("!= of sinter.Values gives no value: sinter.not_equal(a, b) compares their elements, `is not` asks for another object")

    __hash__ = object.__hash__

    # Shapes.

    def cast(self, dtype: DTypeLike) -> "Value":
        """Rounds to `dtype`: nearest even; to s32 toward zero, saturating; to pred != 0; to e4m3 saturating."""
        to = DType.of(dtype)
        return self.builder._add("cast", self._number(), int(to))

    def broadcast_to(self, shape: Sequence[Dim]) -> "Value":
        """Repeats extents of 1 and missing axes in front."""
        dims = _shape(shape)
        return self.builder._add("broadcast", self._number(), len(dims), int64s(dims))

    def reshape(self, *shape: Any) -> "Value":
        """The same elements in row-major order; M occurs as often before as after. There is no -1."""
        dims = _shape(shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, str)) else shape)
        return self.builder._add("reshape", self._number(), len(dims), int64s(dims))

    def transpose(self, *axes: int) -> "Value":
        """Result axis i is axis ``axes[i]`` of the operand."""
        if len(axes) != self.rank:
            raise invalid(f"transpose takes {self.rank} axes, one for each of the operand, not {len(axes)}")
        order = [_axis(a, self.rank, f"axes[{i}]") for i, a in enumerate(axes)]
        return self.builder._add("transpose", self._number(), len(order), int32s(order))

    def gather(self, ids: "Value", axis: int = 0) -> "Value":
        """``self[ids]``, rows by ids of s32 or s64: an embedding. With ``axis=-1`` elements of the last axis, as ``take``.

        An id that is negative or not below the extent gives zeros.
        """
        at = integer(axis, "axis", -(2**31), 2**31 - 1)
        return self.builder._add("gather", self._number(), self.builder._own(ids), at)

    def take(self, ids: "Value") -> "Value":
        """Elements of the last axis: result[.., t] = self[.., ids[.., t]]; ids has the other extents of self."""
        return self.gather(ids, -1)

    def scatter(self, ids: "Value", rows: "Value") -> "Value":
        """``self`` with ``self[ids] = rows``, ids of s32 or s64: a cache write. If ids are equal, the last one wins.

        An id that is negative or not below the extent writes nothing.
        """
        return self.builder._add("scatter", self._number(), self.builder._own(ids), self.builder._own(rows))

    def __getitem__(self, index: Any) -> "Value":
        """Slices with constant bounds and positive steps, one an axis; ``...`` stands for whole axes."""
        return self.builder._slice(self, index if isinstance(index, tuple) else (index,))

    # Reductions.

    def sum(self, axis: Axes = None, keepdims: bool = False) -> "Value":
        """Sum over `axis`, an int or several, all when None; f32 for floating operands."""
        return self.builder._reduce("sum", self, axis, keepdims)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> "Value":
        """Mean over `axis`; f32."""
        return self.builder._reduce("mean", self, axis, keepdims)

    def max(self, axis: Axes = None, keepdims: bool = False) -> "Value":
        """Maximum over `axis`; NaN if one is."""
        return self.builder._reduce("max", self, axis, keepdims)

    def min(self, axis: Axes = None, keepdims: bool = False) -> "Value":
        """Minimum over `axis`; NaN if one is."""
        return self.builder._reduce("min", self, axis, keepdims)


class Transposed(Value):
    """``v.T``: a flag of a product; a separate operation only if another operation reads it."""

    __slots__ = ("base",)

    def __init__(self, base: Value) -> None:
        dims = base.shape[:-2] + (base.shape[-1], base.shape[-2])
        super().__init__(base.builder, 0, dims, base.dtype)
        self.base = base

    @property
    def T(self) -> Value:
        return self.base

    def _number(self) -> int:
        if self._id == 0:
            rank = self.rank
            order = (*range(rank - 2), rank - 1, rank - 2)
            self._id = self.base.transpose(*order)._id
        return self._id


def builder_of(value: Any) -> "Builder":
    """The chain that an operand belongs to."""
    if not isinstance(value, Value):
        raise TypeError(f"an operand is a {type(value).__name__}, not a sinter.Value")
    return value.builder
