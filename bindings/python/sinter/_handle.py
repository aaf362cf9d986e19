"""Ownership of the library's objects."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from typing import Any, Callable, ClassVar, Optional

from ._error import Error, Status
from ._library import library

_generation = 0
_releasing = threading.RLock()  # a finalizer may run inside


def _count_fork() -> None:
    global _generation, _releasing
    _generation += 1
    _releasing = threading.RLock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_count_fork)


class _Reference(ctypes.c_void_p):
    """One reference to an object of the library. Who is last gives it back: its Handle, or a call on another thread that is
    under way with it when the Handle is closed."""

    def __init__(self, pointer: ctypes.c_void_p, release_name: str, drives: bool, waits: bool) -> None:
        super().__init__(pointer.value)
        self._release_name = release_name
        self._drives = drives
        self._made = _generation
        #: Set once it was given back, for who must know.
        self.given_back: Optional[threading.Event] = threading.Event() if waits else None

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # At the interpreter's end modules are half gone, `sys` among them; the process gives everything back by itself.
        if is_finalizing() or not self or (self._drives and self._made != _generation):
            return
        getattr(library(), self._release_name)(self)
        if self.given_back is not None:
            self.given_back.set()


class Handle:
    """Holds one reference to an object of the library; dropping the last Python reference releases it.

    It may be closed while another thread is in a call with it: the call goes on, and gives the reference back.
    An object that drives a GPU is of no use in the child of a fork: CUDA refuses its own state there. The child
    neither uses nor releases it.
    """

    __slots__ = ("_pointer", "_made", "_drives", "__weakref__")
    _release_name: ClassVar[str] = ""
    _close_seconds: ClassVar[float] = 0  # how long closing waits for a call that is under way

    def __init__(self, pointer: ctypes.c_void_p, drives: bool = False) -> None:
        if not isinstance(pointer, _Reference):  # else handed over
            pointer = _Reference(pointer, self._release_name, drives, self._close_seconds > 0)
        self._pointer: Any = pointer
        self._made = _generation
        self._drives = drives

    def _get(self) -> Any:
        """The C handle.

        Raises:
            Error: FAILED_PRECONDITION when it was closed, or belongs to the parent of a fork.
        """
        if self._pointer is None:
            raise Error(Status.FAILED_PRECONDITION, f"the {type(self).__name__} is closed")
        if self._drives and self._made != _generation:
            raise Error(
                Status.FAILED_PRECONDITION,
                f"the {type(self).__name__} was made before a fork: CUDA works in the process that opened it; "
                "make a new Context in a process that was spawned",
            )
        return self._pointer

    def _release(self) -> None:
        with _releasing:
            pointer, self._pointer = self._pointer, None
        if pointer is None or (self._drives and self._made != _generation):
            return
        given_back = pointer.given_back
        del pointer
        if given_back is not None and self._made == _generation:  # a parent's threads do not come back
            given_back.wait(self._close_seconds)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_pointer", None) is not None and not is_finalizing():
            self._release()

    def __copy__(self) -> "Handle":
        return self

    def __deepcopy__(self, memo: object) -> "Handle":
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be pickled: prepare it again in the other process")
