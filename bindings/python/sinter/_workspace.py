"""Workspaces: one for each stream, shared by all plans that take turns on it.

They are not taken from torch's memory: a workspace that lies in a pool of a captured graph, or in one that a server's
sleep mode empties, would lose the zeros that it was given once.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from . import _handle
from ._library import call, library

if TYPE_CHECKING:
    from ._context import Context

_GRAIN = 1 << 20


class _Memory:
    """Zeroed device memory; freed with the context, because a captured graph may hold its address until then."""

    def __init__(self, context: "Context", size: int) -> None:
        self.size = -(-size // _GRAIN) * _GRAIN
        pointer = ctypes.c_uint64()
        with context._in_call() as owner:
            call("sinter_x_device_alloc", owner, self.size, ctypes.byref(pointer))
            self.address = pointer.value
            call("sinter_x_device_fill", owner, self.address, self.size, 0)


class Workspaces:
    """The workspaces of a context, by stream. Thread-safe."""

    def __init__(self, context: "Context") -> None:
        self._context = weakref.ref(context)
        self._lock = threading.Lock()
        self._by_stream: Dict[int, _Memory] = {}
        self._outgrown: List[_Memory] = []
        self._wanted = 0
        self._spare: Optional[_Memory] = None

    def want(self, size: int) -> None:
        """Workspaces made from now on have at least `size` bytes, so that one serves every plan made so far."""
        with _handle._lock:  # the child of a fork has a new lock
            self._wanted = max(self._wanted, size)

    def address(self, stream: int, size: int) -> int:
        """Address of `stream`'s workspace, of `size` bytes or more; 0 for a size of 0.

        Raises:
            Error: RESOURCE_EXHAUSTED or DRIVER.
        """
        if size == 0:
            return 0
        found = self._by_stream.get(stream)
        if found is not None and found.size >= size:
            return found.address
        with self._lock:
            found = self._by_stream.get(stream)
            if found is None or found.size < size:
                made = self._take_spare(size) or _Memory(self._owner(), max(size, self._wanted))
                if found is not None:
                    self._outgrown.append(found)
                found = self._by_stream[stream] = made
            return found.address

    def reserve(self) -> None:
        """Makes a workspace for a stream that is not known yet: a capture then allocates nothing."""
        with self._lock:
            if self._wanted and (self._spare is None or self._spare.size < self._wanted):
                if self._spare is not None:
                    self._outgrown.append(self._spare)
                self._spare = _Memory(self._owner(), self._wanted)

    def bytes(self) -> int:
        """Device memory held."""
        return sum(memory.size for memory in self._all())

    def forget(self) -> None:
        """Frees all; nothing that uses one may be under way."""
        with self._lock:
            memories = self._all()
            self._by_stream.clear()
            self._outgrown.clear()
            self._spare = None
        with self._owner()._in_call() as context:
            for memory in memories:
                library().sinter_x_device_free(context, memory.address, memory.size)

    def _take_spare(self, size: int) -> Optional[_Memory]:
        spare = self._spare
        if spare is None or spare.size < size:
            return None
        self._spare = None
        return spare

    def _all(self) -> List[_Memory]:
        spare = [] if self._spare is None else [self._spare]
        return [*self._by_stream.values(), *self._outgrown, *spare]

    def _owner(self) -> Any:
        context = self._context()
        assert context is not None, "a workspace outlived its context"
        return context
