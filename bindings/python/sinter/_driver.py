"""The few driver calls that the C ABI has no function for: events between streams, and where an address lies.

libcuda is opened at the first call, which is after a context with a GPU has opened it.
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections import deque
from contextlib import contextmanager
from typing import Any, Deque, Dict, Iterator, List, Optional, Tuple

from ._error import Error, Status

_DISABLE_TIMING = 2
_DEVICE_ORDINAL = 9
_NOT_READY = 600

_PROTOTYPES: Dict[str, Tuple[Any, ...]] = {
    "cuInit": (ctypes.c_uint,),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_int),
    "cuCtxPushCurrent_v2": (ctypes.c_void_p,),
    "cuCtxPopCurrent_v2": (ctypes.POINTER(ctypes.c_void_p),),
    "cuEventCreate": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint),
    "cuEventRecord": (ctypes.c_void_p, ctypes.c_void_p),
    "cuEventQuery": (ctypes.c_void_p,),
    "cuEventDestroy_v2": (ctypes.c_void_p,),
    "cuStreamWaitEvent": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint),
    "cuStreamIsCapturing": (ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)),
    "cuPointerGetAttribute": (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64),
}


@functools.lru_cache(maxsize=None)
def _driver() -> Any:
    try:
        library = ctypes.CDLL("libcuda.so.1")
        for name, arguments in _PROTOTYPES.items():
            function = getattr(library, name)
            function.restype = ctypes.c_int
            function.argtypes = arguments
    except (OSError, AttributeError) as reason:
        raise Error(Status.UNAVAILABLE, f"no CUDA driver: {reason}") from None
    _must(library.cuInit(0), "cuInit")
    return library


def _must(result: int, name: str) -> None:
    if result != 0:
        raise Error(Status.DRIVER, f"{name} failed with CUresult {result}", result)


def _call(name: str, *arguments: Any) -> None:
    _must(getattr(_driver(), name)(*arguments), name)


@functools.lru_cache(maxsize=None)
def _primary(device: int) -> Any:
    ordinal, context = ctypes.c_int(), ctypes.c_void_p()
    _call("cuDeviceGet", ctypes.byref(ordinal), device)
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), ordinal)
    return context


@contextmanager
def _current(device: int) -> Iterator[None]:
    _call("cuCtxPushCurrent_v2", _primary(device))
    try:
        yield
    finally:
        _call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def device_of(address: int) -> Optional[int]:
    """Ordinal of the device that `address` lies on; None when the driver does not know it."""
    ordinal = ctypes.c_int(-1)
    result = _driver().cuPointerGetAttribute(ctypes.byref(ordinal), _DEVICE_ORDINAL, address)
    return ordinal.value if result == 0 else None


def is_capturing(device: int, stream: int) -> bool:
    """Whether work on `stream` is being captured into a graph."""
    state = ctypes.c_int()
    with _current(device):
        _call("cuStreamIsCapturing", stream, ctypes.byref(state))
    return state.value != 0


def _record(device: int, stream: int) -> Any:
    event = ctypes.c_void_p()
    _call("cuEventCreate", ctypes.byref(event), _DISABLE_TIMING)
    try:
        _call("cuEventRecord", event, stream)
    except Error:
        _driver().cuEventDestroy_v2(event)
        raise
    return event


def wait_for(device: int, producer: int, consumer: int) -> None:
    """Work enqueued on `consumer` from now on starts after what `producer` holds."""
    with _current(device):
        event = _record(device, producer)
        try:
            _call("cuStreamWaitEvent", consumer, event, 0)
        finally:
            _driver().cuEventDestroy_v2(event)


class InFlight:
    """Keeps objects alive until the launches that use their memory have ended; thread-safe.

    Under capture there is no end to wait for, because the graph may be replayed at any time: those stay until the
    owner of this object goes.
    """

    def __init__(self, device: int) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._waiting: Deque[Tuple[Any, List[Any]]] = deque()
        self._captured: List[Any] = []

    def hold(self, stream: int, owners: List[Any]) -> None:
        """Keeps `owners` until everything enqueued on `stream` so far has ended."""
        if is_capturing(self._device, stream):
            with self._lock:
                self._captured.extend(owners)
            return
        with _current(self._device):
            event = _record(self._device, stream)
        with self._lock:
            self._waiting.append((event, owners))
        self.reap()

    def reap(self) -> None:
        """Lets go of what has ended."""
        done: List[Any] = []
        with self._lock, _current(self._device):
            while self._waiting and _driver().cuEventQuery(self._waiting[0][0]) != _NOT_READY:
                event, owners = self._waiting.popleft()
                _driver().cuEventDestroy_v2(event)
                done.append(owners)
        del done  # outside of the lock: a finalizer may call anything

    def __len__(self) -> int:
        return len(self._waiting) + len(self._captured)
