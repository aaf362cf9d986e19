"""Element types."""

from __future__ import annotations

import enum
from typing import Any, Dict, Union

from . import _abi
from ._error import invalid


class DType(enum.IntEnum):
    """An element type. Every argument that takes one also takes its name, a dtype of torch or numpy, or the type of a
    scalar of numpy or ml_dtypes."""

    F32 = _abi.DTYPE_F32
    F16 = _abi.DTYPE_F16
    BF16 = _abi.DTYPE_BF16
    S32 = _abi.DTYPE_S32
    PRED = _abi.DTYPE_PRED  #: one byte, 0 or 1
    E4M3 = _abi.DTYPE_E4M3  #: the OCP's 8-bit float with 4 exponent bits; can only be cast, moved and multiplied
    S8 = _abi.DTYPE_S8  #: can only be cast, moved and multiplied
    S64 = _abi.DTYPE_S64  #: of inputs that are the ids of a gather, and of views of them, alone

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return _SIZES[self]

    @property
    def floating(self) -> bool:
        """Whether arithmetic takes it as a floating type."""
        return self in (DType.F32, DType.F16, DType.BF16)

    def __str__(self) -> str:
        return self.name.lower()

    @classmethod
    def of(cls, value: Any) -> "DType":
        """The type that `value` names.

        Raises:
            Error: INVALID_ARGUMENT naming the value and the types there are.
        """
        if isinstance(value, cls):
            return value
        told: Any = value.__name__ if isinstance(value, type) else getattr(value, "name", value)
        found = _NAMES.get(str(told).rsplit(".", 1)[-1])
        if not getattr(value, "isnative", True):
            raise invalid(f"dtype is {value!r}, whose bytes are in the other order: give it in the machine's own")
        if found is None:
            raise invalid(f"dtype is {value!r}; there are {' '.join(str(dtype) for dtype in cls)}")
        return found


DTypeLike = Union[DType, str, Any]

_SIZES: Dict[DType, int] = {
    DType.F32: 4,
    DType.F16: 2,
    DType.BF16: 2,
    DType.S32: 4,
    DType.PRED: 1,
    DType.E4M3: 1,
    DType.S8: 1,
    DType.S64: 8,
}

_NAMES: Dict[str, DType] = {
    **{dtype.name.lower(): dtype for dtype in DType},
    "float32": DType.F32,
    "float16": DType.F16,
    "half": DType.F16,
    "bfloat16": DType.BF16,
    "int32": DType.S32,
    "bool": DType.PRED,
    "bool_": DType.PRED,
    "float8_e4m3fn": DType.E4M3,
    "int8": DType.S8,
    "int64": DType.S64,
}
