"""Extents and strides, with the symbol M."""

from __future__ import annotations

import ctypes
import re
from typing import Any, List, Optional, Sequence, Tuple, Union

from ._abi import DIM_M, MAX_RANK
from ._argument import integer
from ._error import invalid


class _Symbol(int):
    """The symbol M: an extent that is known at launch."""

    def __repr__(self) -> str:
        return "M"

    __str__ = __repr__


M = _Symbol(DIM_M)

Dim = Union[int, str]
Shape = Tuple[int, ...]
Stride = Union[int, str]

_STRIDE = re.compile(r"(?:(\d{1,13})\*)?M(?:\^([0-9]))?")


def extent(value: Dim, name: str) -> int:
    """One extent; `sinter.M` or "M" is the symbol."""
    if isinstance(value, _Symbol) or (isinstance(value, str) and value == "M"):
        return M
    return integer(value, name, minimum=0)


def shape(values: Sequence[Dim], name: str = "shape") -> Shape:
    """Extents of a tensor, outermost first.

    Raises:
        TypeError: no sequence of integers. Error: too many, or one out of range.
    """
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise TypeError(f"{name} is {values!r}, not a sequence of extents")
    if len(values) > MAX_RANK:
        raise invalid(f"{name} has {len(values)} extents, more than {MAX_RANK}")
    return tuple(extent(value, f"{name}[{i}]") for i, value in enumerate(values))


def axis(value: int, rank: int, name: str = "axis") -> int:
    """An axis counted from the front; a negative one counts from the end."""
    number = integer(value, name)
    if not -rank <= number < rank:
        raise invalid(f"{name} is {number}, the operand has rank {rank}", name, number)
    return number % rank


def int64s(values: Sequence[int]) -> Any:
    """A C array."""
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def int32s(values: Sequence[int]) -> Any:
    """A C array."""
    return (ctypes.c_int32 * max(len(values), 1))(*values)


def strides(values: Optional[Sequence[Stride]], rank: int) -> Tuple[Any, Any]:
    """C arrays of the factors and the powers of M, or (None, None). A stride is an int or text such as "M", "8*M^2"."""
    if values is None:
        return None, None
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__"):
        raise TypeError(f"strides is {values!r}, not a sequence")
    if len(values) != rank:
        raise invalid(f"strides has {len(values)} items, the tensor has rank {rank}")
    pairs = [_stride(value, f"strides[{i}]") for i, value in enumerate(values)]
    return int64s([factor for factor, _ in pairs]), int32s([power for _, power in pairs])


def _stride(value: Stride, name: str) -> Tuple[int, int]:
    if not isinstance(value, str):
        return integer(value, name), 0
    match = _STRIDE.fullmatch(value)
    if match is None:
        raise invalid(f"{name} is {value!r}, not an integer or a text such as 'M', '8*M' or '8*M^2'")
    return int(match[1] or 1), int(match[2] or 1)


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape that two operands repeat to, aligned at the right.

    Raises:
        Error: INVALID_ARGUMENT naming both shapes.
    """
    result: List[int] = []
    rank = max(len(a), len(b))
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b):
        if x != y and x != 1 and y != 1:
            raise invalid(f"shapes {a} and {b} do not broadcast")
        result.append(y if x == 1 else x)
    return tuple(result)
