"""Ownership of the library's objects."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from contextlib import contextmanager
from typing import Any, Callable, ClassVar, Iterator, List

from . import _callbacks
from ._error import Error, Status
from ._library import library

_generation = 0
_lock = threading.RLock()  # a finalizer or a signal's handler may run inside


def _count_fork() -> None:
    global _generation, _lock
    _generation += 1
    _lock = threading.RLock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_count_fork)


class _Holder:
    """Holds one reference to an object of the library, and releases it once.

    An object that drives a GPU is unusable in the child of a fork, because CUDA refuses its own state there. The child
    neither uses nor releases it.
    """

    __slots__ = ("_pointer", "_owned", "_made", "_drives", "__weakref__")
    _release_name: ClassVar[str] = ""

    def __init__(self, pointer: ctypes.c_void_p, drives: bool = False) -> None:
        #: None once it is closed.
        self._pointer: Any = pointer
        #: The reference: the thread that takes it out releases it.
        self._owned: List[ctypes.c_void_p] = [pointer]
        self._made = _generation
        self._drives = drives

    def __repr__(self) -> str:
        try:
            told = f" {self._told()}" if self._checked() else ""
        except Error as error:
            told = " (closed)" if self._pointer is None else f" ({error.message})"
        return f"<sinter.{type(self).__name__}{told}>"

    def _told(self) -> str:
        """The text of ``repr`` for an object that can be used."""
        return f"at {self._pointer.value:#x}"

    def _checked(self) -> Any:
        """The C handle.

        Raises:
            Error: FAILED_PRECONDITION when it was closed, or belongs to the parent of a fork.
        """
        if self._pointer is None:
            raise Error(Status.FAILED_PRECONDITION, f"the {type(self).__name__} is closed")
        if self._is_parents():
            raise Error(
                Status.FAILED_PRECONDITION,
                f"the {type(self).__name__} was made before a fork: CUDA works in the process that opened it; "
                "make a new Context in a process that was spawned",
            )
        return self._pointer

    def _is_parents(self) -> bool:
        return self._drives and self._made != _generation

    def _end(self) -> None:
        """Releases the reference, if nobody has."""
        try:
            pointer = self._owned.pop()
        except IndexError:
            return
        self._give_back(pointer)

    def _give_back(self, pointer: ctypes.c_void_p) -> None:
        if pointer and not self._is_parents():
            getattr(library(), self._release_name)(pointer)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # A call holds the object, so none is under way. At the interpreter's end modules are half gone, `sys` among them;
        # the process releases everything by itself.
        if getattr(self, "_owned", None) and not is_finalizing():
            self._end()

    def __copy__(self) -> "_Holder":
        return self

    def __deepcopy__(self, memo: object) -> "_Holder":
        return self

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be pickled: prepare it again in the other process")


class Handle(_Holder):
    """An object that is released with its last Python reference; a call with the object holds a reference."""

    __slots__ = ()
    _get = _Holder._checked


class Closable(_Holder):
    """An object that may be closed while calls with it are under way: the last of them releases it.

    Calls are counted, because a Python reference lives on in the traceback of a call that failed.

    Args:
        key: the key of a callback that is dropped with it.
    """

    __slots__ = ("_callers", "_given_back", "_key")
    _close_seconds: ClassVar[float] = 0  # how long closing waits for calls of other threads

    def __init__(self, pointer: ctypes.c_void_p, drives: bool = False, key: int = 0) -> None:
        #: The thread of each call under way.
        self._callers: List[int] = []
        self._given_back = threading.Event()
        self._key = key
        super().__init__(pointer, drives)

    @contextmanager
    def _in_call(self) -> Iterator[Any]:
        """The C handle, which is not released inside the block.

        Raises:
            Error: the errors of ``_checked``.
        """
        caller = threading.get_ident()
        with _lock:
            self._callers.append(caller)  # before the check whether it is closed
        try:
            yield self._checked()
        finally:
            with _lock:
                self._callers.remove(caller)
                last = self._pointer is None and not self._callers
            if last:
                self._end()

    def _close(self) -> None:
        """Releases the object after the calls that are under way, and waits for calls of other threads.

        Not in a callback: the call may be this thread's own, or wait for the end of the callback.
        """
        with _lock:
            self._pointer = None
            callers = list(self._callers)
        if not callers:
            self._end()
        # In the child of a fork a parent's threads do not come back.
        if threading.get_ident() not in callers and not _callbacks.inside() and self._made == _generation:
            self._given_back.wait(self._close_seconds)

    def _give_back(self, pointer: ctypes.c_void_p) -> None:
        super()._give_back(pointer)
        _callbacks.forget(self._key)
        self._given_back.set()
