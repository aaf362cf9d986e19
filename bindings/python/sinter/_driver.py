"""The few driver calls that the C ABI has no function for: events between streams, and the device of an address.

libcuda is opened at the first call, which is after the context has opened it.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Deque, Dict, Iterator, List, Optional, Set, Tuple

from ._error import Error, Status

_DISABLE_TIMING = 2
_DEVICE_ORDINAL = 9
_NOT_READY = 600
_RELAXED = 2

_PROTOTYPES: Dict[str, Tuple[Any, ...]] = {
    "cuInit": (ctypes.c_uint,),
    "cuDeviceGet": (ctypes.POINTER(ctypes.c_int), ctypes.c_int),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_int),
    "cuCtxPushCurrent_v2": (ctypes.c_void_p,),
    "cuCtxPopCurrent_v2": (ctypes.POINTER(ctypes.c_void_p),),
    "cuThreadExchangeStreamCaptureMode": (ctypes.POINTER(ctypes.c_int),),
    "cuEventCreate": (ctypes.POINTER(ctypes.c_void_p), ctypes.c_uint),
    "cuEventRecord": (ctypes.c_void_p, ctypes.c_void_p),
    "cuEventQuery": (ctypes.c_void_p,),
    "cuEventDestroy_v2": (ctypes.c_void_p,),
    "cuStreamWaitEvent": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint),
    "cuStreamIsCapturing": (ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)),
    "cuPointerGetAttribute": (ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64),
}


class Driver:
    """The driver of one context. Thread-safe."""

    def __init__(self, path: Optional[str], device: int) -> None:
        self._path = path or os.environ.get("SINTER_LIBCUDA") or "libcuda.so.1"
        self._device = device
        self._lock = threading.Lock()
        self._opened: Any = None
        self._context = ctypes.c_void_p()

    def device_of(self, address: int) -> Optional[int]:
        """Ordinal of the device of `address`; None if the driver does not know the address."""
        ordinal = ctypes.c_int(-1)
        result = self._library().cuPointerGetAttribute(ctypes.byref(ordinal), _DEVICE_ORDINAL, address)
        return ordinal.value if result == 0 else None

    def is_capturing(self, stream: int) -> bool:
        """Whether work on `stream` is being captured into a graph."""
        state = ctypes.c_int()
        with self._current():
            self._call("cuStreamIsCapturing", stream, ctypes.byref(state))
        return state.value != 0

    def wait_for(self, producer: int, consumer: int) -> None:
        """Makes work that is enqueued on `consumer` from now on start after the work on `producer` so far."""
        event = self.record(producer)
        with self._current():
            try:
                self._call("cuStreamWaitEvent", consumer, event, 0)
            finally:
                self._opened.cuEventDestroy_v2(event)

    def record(self, stream: int) -> Any:
        """An event that is reached when everything enqueued on `stream` so far has ended."""
        event = ctypes.c_void_p()
        with self._current():
            self._call("cuEventCreate", ctypes.byref(event), _DISABLE_TIMING)
            try:
                self._call("cuEventRecord", event, stream)
            except Error:
                self._opened.cuEventDestroy_v2(event)
                raise
        return event

    def take_if_reached(self, event: Any) -> bool:
        """Whether `event` was reached; then it is destroyed."""
        with self._current():
            if self._opened.cuEventQuery(event) == _NOT_READY:
                return False
            self._opened.cuEventDestroy_v2(event)
            return True

    def _library(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = _open(self._path)
            return self._opened

    def _call(self, name: str, *arguments: Any) -> None:
        _must(getattr(self._library(), name)(*arguments), name)

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Makes the device's context current, with a capture mode in which no call here breaks a capture of another thread."""
        if not self._context:
            ordinal = ctypes.c_int()
            self._call("cuDeviceGet", ctypes.byref(ordinal), self._device)
            # Never released: the primary context lives as long as the process that uses torch.
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), ordinal)
        self._call("cuCtxPushCurrent_v2", self._context)
        mode = ctypes.c_int(_RELAXED)
        try:
            self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
            try:
                yield
            finally:
                self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        finally:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


def _open(path: str) -> Any:
    try:
        library = ctypes.CDLL(path)
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


class InFlight:
    """Keeps objects alive until the launches that use their memory have ended, even if the owner is collected before. Thread-safe.

    Under capture there is no end to wait for, because the graph may be replayed at any time: these objects stay until the
    owner of this object is collected.
    """

    #: Instances with launches under way.
    _busy: "ClassVar[Set[InFlight]]" = set()

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._waiting: Deque[Tuple[Any, List[Any]]] = deque()
        self._captured: List[Any] = []

    def hold(self, stream: int, owners: List[Any]) -> None:
        """Keeps `owners` until everything enqueued on `stream` so far has ended."""
        if self._driver.is_capturing(stream):
            with self._lock:
                self._captured.extend(owners)
            return
        event = self._driver.record(stream)
        with self._lock:
            self._waiting.append((event, owners))
            self._busy.add(self)
        self.reap()
        for other in self._busy - {self}:
            with suppress(Error):  # an event of another device
                other.reap()

    def reap(self) -> None:
        """Releases the objects of launches that have ended."""
        done: List[Any] = []
        with self._lock:
            while self._waiting and self._driver.take_if_reached(self._waiting[0][0]):
                done.append(self._waiting.popleft())
            if not self._waiting:
                self._busy.discard(self)
        del done  # outside of the lock: a finalizer may call anything

    def __len__(self) -> int:
        return len(self._waiting) + len(self._captured)
