"""Element types."""

from __future__ import annotations

import enum
from typing import Any, Dict, NamedTuple, Tuple, Union

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
        return FACTS[self].dlpack[1] // 8

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


class Facts(NamedTuple):
    """How others write an element type.

    Attributes:
        name: its name in torch, numpy and CuPy.
        typestr: as ``__cuda_array_interface__`` says it.
        dlpack: code and bits of DLPack's type.
    """

    name: str
    typestr: str
    dlpack: Tuple[int, int]


FACTS: Dict[DType, Facts] = {
    DType.F32: Facts("float32", "<f4", (2, 32)),
    DType.F16: Facts("float16", "<f2", (2, 16)),
    DType.BF16: Facts("bfloat16", "<V2", (4, 16)),  # ml_dtypes' bfloat16 has this typestr
    DType.S32: Facts("int32", "<i4", (0, 32)),
    DType.PRED: Facts("bool", "|b1", (6, 8)),
    DType.E4M3: Facts("float8_e4m3fn", "|V1", (10, 8)),
    DType.S8: Facts("int8", "|i1", (0, 8)),
    DType.S64: Facts("int64", "<i8", (0, 64)),
}

_NAMES: Dict[str, DType] = {
    **{dtype.name.lower(): dtype for dtype in DType},
    **{facts.name: dtype for dtype, facts in FACTS.items()},
    "half": DType.F16,
    "bool_": DType.PRED,
}
