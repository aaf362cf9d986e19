"""Buffers of a caller: a tensor of torch, any object with ``__cuda_array_interface__`` or ``__dlpack__``, or an address.
Every property that the object describes is compared with the chain's requirement."""

from __future__ import annotations

import math
import operator
import sys
from typing import Any, Dict, NamedTuple, Optional, Tuple

from . import _dlpack
from ._argument import integer
from ._chain import TensorInfo
from ._dtype import FACTS, DType
from ._error import Error, Status, invalid

ALIGNMENT = 16


class Buffer(NamedTuple):
    """Device memory as the caller described it. None: the description does not say.

    Attributes:
        address: of the first element.
        device: ordinal, or -1 for host memory.
        shape, strides: in elements; strides None means contiguous.
        owner: the object that keeps the memory alive, None for an address.
        ordered: whether freeing the owner is safe while work on its stream is under way, as with torch's allocator.
        producer: a stream that the memory is written on.
        unwritable: why nobody may write it, by its owner's description: "read-only", "a copy"; "" if it may be written.
    """

    address: int
    device: Optional[int] = None
    dtype: Optional[DType] = None
    shape: Optional[Tuple[int, ...]] = None
    strides: Optional[Tuple[int, ...]] = None
    owner: Any = None
    ordered: bool = False
    producer: Optional[int] = None
    unwritable: str = ""


def torch_module() -> Any:
    """torch if the process has imported it, else None."""
    return sys.modules.get("torch")


def is_torch(value: Any) -> bool:
    """Whether `value` is a torch tensor."""
    torch = torch_module()
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def describe(value: Any, name: str, stream: int = 0, untyped: bool = False) -> Buffer:
    """Reads the description of `value`. `stream`: the stream that will read it, for producers that ask. `untyped`: only its
    bytes matter, so an unsigned type, which no chain has, counts as s8.

    Raises:
        TypeError: not a buffer. Error: a description that cannot be used.
    """
    if is_torch(value):
        return _of_torch(value, name, untyped)
    try:
        interface = getattr(value, "__cuda_array_interface__", None)
    except Exception as reason:
        if not hasattr(value, "__dlpack__"):
            raise invalid(f"{name} has a __cuda_array_interface__ that failed: {reason!r}") from None
        interface = None  # JAX has no interface for bf16, and fails with this error
    if interface is not None:
        return _of_interface(value, interface, name, untyped)
    if hasattr(value, "__dlpack__"):
        return _of_dlpack(value, name, stream, untyped)
    try:
        address = operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} is a {type(value).__name__}: neither a torch tensor, nor an object with __cuda_array_interface__ "
            "or __dlpack__, nor an address"
        ) from None
    return Buffer(_within(address, name))


def _within(address: int, name: str) -> int:
    """`address` as an integer of 64 bits."""
    if not 0 <= address < 2**64:
        raise invalid(f"{name} is the address {address}, not 0 to 2^64 - 1")
    return address


def check(buffer: Buffer, info: TensorInfo, name: str, device: Optional[int]) -> None:
    """Compares a buffer with the chain's requirement.

    Raises:
        Error: INVALID_ARGUMENT naming the buffer, the property, its value and the required value.
    """
    label = f"{name} ({info.name})" if info.name else name
    _check_place(buffer, label, device)
    if buffer.dtype is not None and buffer.dtype is not info.dtype:
        raise invalid(f"{label} has dtype {buffer.dtype}, the chain asks for {info.dtype}")
    if buffer.shape is not None and buffer.shape != info.shape:
        raise invalid(f"{label} has shape {buffer.shape}, the chain asks for {info.shape}")
    if buffer.shape is not None and not _same_strides(buffer, info):
        raise invalid(
            f"{label} has strides {buffer.strides or contiguous(info.shape)}, the chain asks for {info.strides}"
        )
    if buffer.address % ALIGNMENT:
        raise invalid(f"{label} is at address {buffer.address:#x}, which is not aligned to {ALIGNMENT} bytes")
    if buffer.address == 0 and 0 not in info.shape:
        raise invalid(f"{label} is at address 0")


def check_workspace(buffer: Buffer, size: int, device: Optional[int]) -> None:
    """Checks a workspace in the same way; a plan needs `size` bytes.

    Raises:
        Error: INVALID_ARGUMENT.
    """
    _check_place(buffer, "workspace", device)
    if buffer.shape is None or buffer.dtype is None:
        return
    strides = contiguous(buffer.shape)
    if any(a != b for a, b, extent in zip(buffer.strides or strides, strides, buffer.shape) if extent > 1):
        raise invalid(f"workspace has strides {buffer.strides}: it must be contiguous")
    found = math.prod(buffer.shape) * buffer.dtype.itemsize
    if found < size:
        raise invalid(f"workspace has {found} bytes, the plan needs {size}")


def _check_place(buffer: Buffer, label: str, device: Optional[int]) -> None:
    if buffer.device is not None and buffer.device != device and (buffer.device < 0 or device is not None):
        place = "on the host" if buffer.device < 0 else f"on device {buffer.device}"
        wanted = "a GPU" if device is None else f"device {device}"
        raise invalid(f"{label} is {place}, the plan runs on {wanted}")


def contiguous(shape: Tuple[int, ...]) -> Tuple[int, ...]:
    """Strides in elements of a tensor without gaps."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def _same_strides(buffer: Buffer, info: TensorInfo) -> bool:
    """Whether strides are equal where they matter. Strides of axes with one element, or of a tensor without elements, do not matter."""
    if 0 in info.shape:
        return True
    strides = contiguous(info.shape) if buffer.strides is None else buffer.strides
    return all(a == b for a, b, extent in zip(strides, info.strides, info.shape) if extent > 1)


# ---------------------------------------------------------------- torch

_torch_dtypes: Dict[Any, DType] = {}


def torch_dtype(dtype: DType) -> Any:
    """torch's own `dtype`."""
    return getattr(torch_module(), FACTS[dtype].name)


def _of_torch(value: Any, name: str, untyped: bool) -> Buffer:
    torch = torch_module()
    if value.requires_grad and torch.is_grad_enabled():
        raise Error(
            Status.FAILED_PRECONDITION,
            f"{name} requires a gradient, and a plan has no backward: call it under torch.no_grad()",
        )
    if value.layout is not torch.strided:
        raise invalid(f"{name} has layout {value.layout}, not torch.strided")
    if value.device.type not in ("cuda", "cpu"):
        raise invalid(f"{name} is on {value.device}, not on a CUDA device")
    if value.is_conj() or value.is_neg():
        raise invalid(f"{name} is a lazy conjugate or negation: call resolve_conj() or resolve_neg()")
    if not _torch_dtypes:
        _torch_dtypes.update({torch_dtype(dtype): dtype for dtype in DType})
    dtype = DType.S8 if untyped and value.dtype is torch.uint8 else _torch_dtypes.get(value.dtype)
    if dtype is None:
        raise invalid(f"{name} has dtype {value.dtype}, which no chain has")
    return Buffer(
        value.data_ptr(),
        value.device.index if value.is_cuda else -1,
        dtype,
        tuple(value.shape),
        value.stride(),
        value,
        True,
    )


# ---------------------------------------------------------------- __cuda_array_interface__

_TYPESTR = {facts.typestr: dtype for dtype, facts in FACTS.items()}


def _of_interface(value: Any, interface: Any, name: str, untyped: bool) -> Buffer:
    try:
        typestr, shape = interface["typestr"], tuple(operator.index(extent) for extent in interface["shape"])
        address, strides = operator.index(interface["data"][0] or 0), interface.get("strides")
        strides = None if strides is None else tuple(operator.index(stride) for stride in strides)
        producer, readonly = interface.get("stream"), bool(interface["data"][1])
        masked = interface.get("mask") is not None
        dtype = DType.S8 if untyped and typestr == "|u1" else _TYPESTR.get(typestr)
    except Exception as reason:
        raise invalid(f"{name} has a __cuda_array_interface__ that cannot be read: {reason!r}") from None
    if dtype is None:
        raise invalid(f"{name} has typestr {typestr!r}; there are {' '.join(_TYPESTR)}")
    if masked:
        raise invalid(f"{name} has a mask")
    if strides is not None:
        strides = _element_strides(strides, shape, dtype, name)
    if producer is not None:
        producer = integer(producer, f"the stream of {name}", 0, 2**64 - 1)
    # 1 and 2 are CUDA's handles of the legacy and the per-thread default stream.
    unwritable = "read-only" if readonly else ""
    return Buffer(_within(address, name), None, dtype, shape, strides, value, False, producer, unwritable)


def _element_strides(strides: Tuple[int, ...], shape: Tuple[int, ...], dtype: DType, name: str) -> Tuple[int, ...]:
    if len(strides) != len(shape) or any(stride % dtype.itemsize for stride in strides):
        raise invalid(f"{name} has byte strides {strides} for shape {shape} of {dtype}")
    return tuple(stride // dtype.itemsize for stride in strides)


# ---------------------------------------------------------------- DLPack

_DLPACK_TYPES = {facts.dlpack: dtype for dtype, facts in FACTS.items()}
_UNSIGNED_BYTE = (1, 8)


def _of_dlpack(value: Any, name: str, stream: int, untyped: bool) -> Buffer:
    found = _dlpack.export(value, name, stream)
    dtype = DType.S8 if untyped and found.element == _UNSIGNED_BYTE else _DLPACK_TYPES.get(found.element)
    if dtype is None:
        code, bits = found.element
        raise invalid(f"{name} has DLPack type code {code} of {bits} bits, which no chain has")
    return Buffer(
        _within(found.address, name),
        found.device,
        dtype,
        found.shape,
        found.strides,
        (value, found.capsule),
        unwritable=found.unwritable,
    )
