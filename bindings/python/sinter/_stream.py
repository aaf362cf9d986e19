"""Which stream a launch goes to."""

from __future__ import annotations

import operator
import sys
from typing import Any, Iterable, Optional

from ._buffers import is_torch, torch_module
from ._error import invalid

StreamLike = Any


def handle(stream: StreamLike) -> int:
    """The CUstream of an integer, of a stream of torch or CuPy, or of an object with ``__cuda_stream__``.

    Raises:
        TypeError: none of these. Error: INVALID_ARGUMENT for a ``__cuda_stream__`` that fails.
    """
    if stream is None:
        return 0
    try:
        number = operator.index(_told(stream))
    except TypeError:
        raise TypeError(f"stream is a {type(stream).__name__}: neither an integer nor a CUDA stream") from None
    if not 0 <= number < 2**64:
        raise TypeError(f"stream is {number}, not an address")
    return number


def _told(stream: StreamLike) -> Any:
    """What an object says its handle is; else the object."""
    for attribute in ("cuda_stream", "ptr"):
        found = getattr(stream, attribute, None)
        if isinstance(found, int):
            return found
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        return stream
    try:
        return (protocol() if callable(protocol) else protocol)[1]
    except Exception as reason:
        raise invalid(f"stream has a __cuda_stream__ that failed: {reason!r}") from None


def current(values: Iterable[Any], device: Optional[int]) -> int:
    """The current stream of the library that made the first tensor: torch's or CuPy's, else the legacy default stream."""
    for value in values:
        if is_torch(value) and value.is_cuda:
            return current_of_torch(value.device.index)
        if type(value).__module__.partition(".")[0] == "cupy":
            cupy = sys.modules["cupy"]
            return int(cupy.cuda.get_current_stream().ptr)
    return 0


def current_of_torch(device: int) -> int:
    """torch's current stream on `device`."""
    torch = torch_module()
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return int(raw(device) if raw is not None else torch.cuda.current_stream(device).cuda_stream)
