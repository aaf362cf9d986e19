"""Tensors of other libraries by DLPack.

A capsule is a pointer that another library filled in. Its fields are checked before they are used, and compared with the device
that the producer named.
"""

from __future__ import annotations

import ctypes
import operator
from typing import Any, NamedTuple, Optional, Tuple

from ._abi import MAX_RANK
from ._error import invalid

_CUDA = (2, 13)  # kDLCUDA and kDLCUDAManaged
_READ_ONLY, _COPIED = 1, 2  # DLPACK_FLAG_BITMASK_READ_ONLY and _IS_COPIED


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor)]


class _Version(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32)]


class _ManagedVersioned(ctypes.Structure):
    _fields_ = [
        ("version", _Version),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype = ctypes.c_int
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


class Export(NamedTuple):
    """A tensor that a producer exported.

    Attributes:
        element: code and bits of DLPack's type.
        strides: in elements; None means contiguous.
        unwritable: why nobody may write it, "" if it may be written.
        capsule: it is not consumed: it frees the memory when it is collected.
    """

    address: int
    device: int
    element: Tuple[int, int]
    shape: Tuple[int, ...]
    strides: Optional[Tuple[int, ...]]
    unwritable: str
    capsule: Any


def export(value: Any, name: str, stream: int) -> Export:
    """The tensor of a producer, ready to be read on `stream`.

    Raises:
        Error: INVALID_ARGUMENT naming `name`, the property and its bound.
    """
    kind, ordinal = _device_of(value, name)
    capsule = _capsule_of(value, name, stream)
    tensor, flags = _tensor_of(capsule, name)
    if (tensor.device.type, tensor.device.id) != (kind, ordinal):
        raise invalid(
            f"{name} is on DLPack device type {tensor.device.type}, id {tensor.device.id}, but its "
            f"__dlpack_device__ says type {kind}, id {ordinal}"
        )
    if tensor.dtype.lanes != 1:
        raise invalid(f"{name} has a DLPack type of {tensor.dtype.lanes} lanes, not 1")
    if not 0 <= tensor.rank <= MAX_RANK:
        raise invalid(f"{name} has rank {tensor.rank} by DLPack, not 0 to {MAX_RANK}")
    shape = _numbers(tensor.shape, tensor.rank)
    if shape is None:
        raise invalid(f"{name} has rank {tensor.rank} by DLPack, and its shape is NULL")
    if any(extent < 0 for extent in shape):
        raise invalid(f"{name} has shape {shape} by DLPack: an extent is less than 0")
    if not tensor.data and 0 not in shape:
        raise invalid(f"{name} has shape {shape} by DLPack, and its data is NULL")
    return Export(
        (tensor.data or 0) + tensor.byte_offset,
        ordinal,
        (tensor.dtype.code, tensor.dtype.bits),
        shape,
        _numbers(tensor.strides, tensor.rank),
        "read-only" if flags & _READ_ONLY else "a copy" if flags & _COPIED else "",
        capsule,
    )


def _numbers(pointer: Any, count: int) -> Optional[Tuple[int, ...]]:
    """The numbers at `pointer`; None for NULL."""
    if count == 0:
        return ()
    return tuple(pointer[:count]) if pointer else None


def _device_of(value: Any, name: str) -> Tuple[int, int]:
    """Type and id that the producer says."""
    try:
        kind, ordinal = map(operator.index, value.__dlpack_device__())
    except Exception as reason:
        raise invalid(f"{name} has a __dlpack_device__ that failed: {reason!r}") from None
    if kind not in _CUDA:
        raise invalid(f"{name} is on DLPack device type {kind}, not on a CUDA device")
    if not 0 <= ordinal < 2**31:
        raise invalid(f"{name} is on DLPack device id {ordinal}, not 0 to {2**31 - 1}")
    return kind, ordinal


def _capsule_of(value: Any, name: str, stream: int) -> Any:
    # 1 is the legacy default stream in DLPack's numbering, where 0 is not allowed.
    on = stream or 1
    try:
        try:
            return value.__dlpack__(stream=on, max_version=(1, 0))
        except TypeError:  # a producer from before DLPack 1.0
            return value.__dlpack__(stream=on)
    except Exception as reason:
        raise invalid(f"{name} could not be exported by DLPack: {reason!r}") from None


def _tensor_of(capsule: Any, name: str) -> "Tuple[Any, int]":
    """The tensor and its flags; a capsule from before DLPack 1.0 has no flags."""
    try:
        if _is_valid(capsule, b"dltensor_versioned"):
            managed: Any = _ManagedVersioned.from_address(_get_pointer(capsule, b"dltensor_versioned"))
            if managed.version.major != 1:
                raise invalid(f"{name} is of DLPack version {managed.version.major}, not 1")
            return managed.tensor, managed.flags
        if _is_valid(capsule, b"dltensor"):
            return _Managed.from_address(_get_pointer(capsule, b"dltensor")).tensor, 0
    except (ctypes.ArgumentError, ValueError, TypeError) as reason:
        raise invalid(f"{name} exported a capsule that cannot be read: {reason}") from None
    raise invalid(f"{name} exported a {type(capsule).__name__} that is no DLPack capsule")
