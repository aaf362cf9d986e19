"""Chains from Python expressions.

    b = sinter.Builder()
    x = b.input("bf16", (sinter.M, 1024))
    w = b.constant("bf16", (4096, 1024))
    chain = b.finish(sinter.silu(x @ w.T).cast("bf16"))

Every operation is checked by the library as it is added. Operators broadcast as numpy's do; a Python number becomes an
f32 scalar (s32 if the other operand is s32), so that nothing is rounded: only ``cast`` rounds.
"""

from __future__ import annotations

import ctypes
import numbers
from typing import Any, List, Optional, Sequence, Tuple

from . import _abi
from ._argument import flag, integer, is_number, named, sequence
from ._chain import Chain
from ._dtype import DType, DTypeLike
from ._error import invalid
from ._handle import Handle
from ._library import call, encode
from ._shape import M, Dim, Stride, axis as _axis, broadcast, int32s, int64s, shape as _shape, strides as _strides
from ._value import Axes, Number, Operand as Operand, Transposed, Value as Value, builder_of as builder_of

class Builder(Handle):
    """A chain under construction. One thread at a time.

    An operation that is refused raises ``Error`` naming its index, its kind, the field, the value and the bound, and
    leaves the chain as it was.
    """

    __slots__ = ("_outputs",)
    _release_name = "sinter_chain_release"

    def __init__(self) -> None:
        chain = ctypes.c_void_p()
        call("sinter_chain_create", ctypes.byref(chain))
        super().__init__(chain)
        self._outputs = 0

    def _told(self) -> str:
        return f"with {self._outputs} outputs"

    # Leaves.

    def input(
        self,
        dtype: DTypeLike,
        shape: Sequence[Dim],
        *,
        name: Optional[str] = None,
        strides: Optional[Sequence[Stride]] = None,
        constant: bool = False,
    ) -> Value:
        """A tensor that the caller supplies; buffers are later given in the order of these calls.

        Args:
            dtype: of its elements.
            shape: extents, 1 to 2^31 - 1 each, or ``sinter.M``.
            name: for messages only, at most 128 bytes of printable ASCII.
            strides: in elements, contiguous by default; "8*M" grows with M; 0 repeats an element.
            constant: weights: the tensor never changes while a plan uses it on a stream.
        """
        dims, kind = _shape(shape), DType.of(dtype)
        options = _abi.InputOptions(flags=_abi.INPUT_CONSTANT if flag(constant, "constant") else 0)
        if name is not None:
            options.name = encode(name, "name")
        _set_strides(options, strides, len(dims))
        return self._add("input", int(kind), len(dims), int64s(dims), ctypes.byref(options))

    def constant(
        self,
        dtype: DTypeLike,
        shape: Sequence[Dim],
        *,
        name: Optional[str] = None,
        strides: Optional[Sequence[Stride]] = None,
    ) -> Value:
        """An input that never changes while a plan uses it: weights."""
        return self.input(dtype, shape, name=name, strides=strides, constant=True)

    def scalar(self, value: Number, dtype: DTypeLike = DType.F32) -> Value:
        """A constant of rank 0, rounded to `dtype`; NaN is refused."""
        kind = DType.of(dtype)
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"scalar is {value!r}, which is no number that a float holds") from None
        return self._add("scalar", number, int(kind))

    def iota(self, dtype: DTypeLike, shape: Sequence[Dim], axis: int) -> Value:
        """result[.., i, ..] = i along `axis`; s32 or f32."""
        dims, kind = _shape(shape), DType.of(dtype)
        return self._add("iota", int(kind), len(dims), int64s(dims), _axis(axis, len(dims)))

    def random(self, seed: Value, offset: Value, shape: Sequence[Dim]) -> Value:
        """Uniform f32 in [0, 1), as Triton's ``tl.rand(seed, offset + i)`` at row-major place i; both s32 or s64.

        Either has rank 0, or a number for each index of leading dims, such as each row; i is then the place within that index."""
        dims = _shape(shape)
        return self._add("random", self._own(seed), self._own(offset), len(dims), int64s(dims))

    # The end.

    def output(
        self,
        value: Value,
        *,
        strides: Optional[Sequence[Stride]] = None,
        alias: Optional[Value] = None,
    ) -> None:
        """Declares the next output.

        Args:
            value: what is stored, in its own dtype.
            strides: in elements, contiguous by default; elements must not overlap.
            alias: an input whose buffer this output may share.
        """
        number = self._own(value)
        options = _abi.OutputOptions()
        if alias is not None:
            options.alias = self._own(alias)
        _set_strides(options, strides, value.rank)
        call("sinter_chain_add_output", self._get(), number, ctypes.byref(options))
        self._outputs += 1

    def finish(self, *outputs: Value) -> Chain:
        """Declares `outputs`, checks the chain and returns it. This closes the builder.

        If a finish fails after it has declared outputs, it also closes the builder, because outputs cannot be withdrawn. If it got
        no outputs, or a value that cannot be an output, the builder stays open.

        Raises:
            Error: FAILED_PRECONDITION for a chain without outputs; INVALID_ARGUMENT for a value that no output needs.
        """
        for value in outputs:
            self._own(value)
        declared = self._outputs
        try:
            for value in outputs:
                self.output(value)
            call("sinter_chain_finish", self._get())
        except BaseException:
            if self._outputs > declared:
                self._pointer = None
                self._end()
            raise
        self._pointer = None
        return Chain(self._owned.pop())

    # The interface for operators and functions.

    def _own(self, value: Value) -> int:
        if not isinstance(value, Value):
            raise TypeError(f"an operand is a {type(value).__name__}, not a sinter.Value")
        if value.builder is not self:
            raise invalid("an operand belongs to another Builder")
        return value._number()

    def _optional(self, value: Optional[Value]) -> int:
        return 0 if value is None else self._own(value)

    def _add(self, kind: str, *arguments: Any) -> Value:
        out = ctypes.c_int32()
        call(f"sinter_chain_add_{kind}", self._get(), *arguments, ctypes.byref(out))
        return self._value(out.value)

    def _add_pair(self, kind: str, *arguments: Any) -> Tuple[Value, Value]:
        """Adds an op of two results."""
        first, second = ctypes.c_int32(), ctypes.c_int32()
        call(f"sinter_chain_add_{kind}", self._get(), *arguments, ctypes.byref(first), ctypes.byref(second))
        return self._value(first.value), self._value(second.value)

    def _value(self, number: int) -> Value:
        """A value of the library's chain, with its extents and type in the chain."""
        info = _abi.TensorInfo()
        call("sinter_x_chain_get_value", self._get(), number, ctypes.byref(info))
        shape = tuple(M if extent == _abi.DIM_M else extent for extent in info.dims[: info.rank])
        return Value(self, number, shape, DType(info.dtype))

    def _lift(self, value: Operand, beside: Value) -> Value:
        """`value`; a number becomes a scalar, whose type follows from the other operand `beside`."""
        if isinstance(value, Value):
            self._own(value)
            return value
        if not is_number(value):
            raise TypeError(f"an operand is a {type(value).__name__}, not a sinter.Value or a number")
        whole = beside.dtype is DType.S32 and isinstance(value, numbers.Integral)
        return self.scalar(value, DType.S32 if whole else DType.F32)

    def _pair(self, a: Operand, b: Operand) -> Tuple[Value, Value]:
        """Both as values of one shape, or one of rank 0."""
        if not isinstance(a, Value) and not isinstance(b, Value):
            raise TypeError("one operand at least must be a sinter.Value")
        x = self._lift(a, b) if isinstance(b, Value) else self._lift(a, a)  # type: ignore[arg-type]
        y = self._lift(b, x)
        if x.rank and y.rank and x.shape != y.shape:
            shape = broadcast(x.shape, y.shape)
            x = x if x.shape == shape else x.broadcast_to(shape)
            y = y if y.shape == shape else y.broadcast_to(shape)
        return x, y

    def _binary(self, kind: str, a: Operand, b: Operand) -> Value:
        x, y = self._pair(a, b)
        return self._add("binary", _abi.BINARY[kind], self._own(x), self._own(y))

    def _compare(self, kind: str, a: Operand, b: Operand) -> Value:
        x, y = self._pair(a, b)
        return self._add("compare", _abi.COMPARE[kind], self._own(x), self._own(y))

    def _unary(self, kind: str, a: Value) -> Value:
        return self._add("unary", _abi.UNARY[kind], self._own(a))

    def _activate(self, name: str, x: Value) -> Value:
        return self._add("activation", named(_abi.ACTIVATION, name, "activation"), self._own(x))

    def _select(self, condition: Value, a: Operand, b: Operand) -> Value:
        number = self._own(condition)
        x, y = self._pair(a, b)
        shape = broadcast(condition.shape, x.shape or y.shape)
        if condition.rank and condition.shape != shape:
            number = self._own(condition.broadcast_to(shape))
        x = x if x.rank == 0 or x.shape == shape else x.broadcast_to(shape)
        y = y if y.rank == 0 or y.shape == shape else y.broadcast_to(shape)
        return self._add("select", number, self._own(x), self._own(y))

    def _matmul(self, a: Value, b: Value) -> Value:
        if not isinstance(b, Value):
            raise TypeError(f"an operand is a {type(b).__name__}, not a sinter.Value")
        flags, operands = 0, []
        for value, flag in ((a, _abi.MATMUL_TRANSPOSE_A), (b, _abi.MATMUL_TRANSPOSE_B)):
            if isinstance(value, Transposed) and value._id == 0:
                flags |= flag
                value = value.base
            operands.append(self._own(value))
        options = _abi.MatmulOptions(flags=flags)
        return self._add("matmul", *operands, ctypes.byref(options))

    def _reduce(self, kind: str, a: Value, axes: Axes, keepdims: bool) -> Value:
        number, keepdims = self._own(a), flag(keepdims, "keepdims")
        if axes is None:
            chosen = list(range(a.rank))
        elif isinstance(axes, Sequence) and not isinstance(axes, str):
            chosen = [_axis(item, a.rank, f"axis[{i}]") for i, item in enumerate(axes)]
        else:
            chosen = [_axis(axes, a.rank)]
        options = _abi.ReduceOptions(flags=_abi.REDUCE_KEEPDIMS if keepdims else 0)
        return self._add("reduce", _abi.REDUCE[kind], number, len(chosen), int32s(chosen), ctypes.byref(options))

    def _slice(self, a: Value, index: Tuple[Any, ...]) -> Value:
        number = self._own(a)
        starts: List[int] = []
        limits: List[int] = []
        steps: List[int] = []
        for i, (item, extent) in enumerate(zip(_whole_index(index, a.rank), a.shape)):
            start, limit, step = _bounds(item, extent, i)
            starts.append(start)
            limits.append(limit)
            steps.append(step)
        return self._add("slice", number, a.rank, int64s(starts), int64s(limits), int64s(steps))

    def _concat(self, values: Sequence[Value], axis: int) -> Value:
        numbers = int32s([self._own(value) for value in values])
        first = values[0]
        at = _axis(axis, first.rank)
        if any(value.rank != first.rank for value in values):
            raise invalid("the operands of concat have different ranks")
        return self._add("concat", len(values), numbers, at)


def _set_strides(options: Any, strides: Optional[Sequence[Stride]], rank: int) -> None:
    factors, powers = _strides(strides, rank)
    if factors is not None:
        options.strides, options.stride_m_powers = factors, powers


def _whole_index(index: Tuple[Any, ...], rank: int) -> List[slice]:
    """One slice an axis."""
    ellipses = sum(1 for item in index if item is Ellipsis)
    if ellipses > 1:
        raise invalid("an index has more than one ...")
    given = len(index) - ellipses
    if given > rank:
        raise invalid(f"an index of {given} items for a value of rank {rank}")
    items: List[slice] = []
    for item in index if ellipses else (*index, Ellipsis):
        if item is Ellipsis:
            items.extend([slice(None)] * (rank - given))
        elif isinstance(item, slice):
            items.append(item)
        else:
            raise TypeError(f"an index holds {item!r}: slices only, such as x[:, 0:8]; reshape drops an axis")
    return items


def _bounds(item: slice, extent: int, i: int) -> Tuple[int, int, int]:
    if extent == _abi.DIM_M:
        if item != slice(None):
            raise invalid(f"axis {i} has extent M and is taken whole, not {item}")
        return 0, _abi.DIM_M, 1
    step = 1 if item.step is None else integer(item.step, f"step of axis {i}", 1)
    start, limit, _ = slice(item.start, item.stop, step).indices(extent)
    return start, limit, step


def numbers_of(value: Any, name: str, count: int, minimum: int) -> Tuple[int, ...]:
    """``count`` integers, `minimum` to 1024: one for all, as many, or one for each pair of them."""
    given = sequence(value, name) if hasattr(value, "__len__") else [value]
    if len(given) == 0 or count % len(given) != 0:
        raise invalid(f"{name} has {len(given)} numbers, must have {count} or one")
    return tuple(integer(item, name, minimum, 1024) for item in given for _ in range(count // len(given)))
