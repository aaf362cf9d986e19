"""Callbacks from the library's threads.

The library gets one permanent C function and an integer key. The key's target can be dropped at any time, and a later call then
finds nothing. So no callback can reach an object that is gone.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
import threading
import traceback
import types
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, Optional

from . import _abi
from ._library import library

_keys = itertools.count(1)
_lock = threading.RLock()  # a finalizer may run inside
_targets: Dict[int, Callable[..., Any]] = {}
_here = threading.local()
_IGNORED = "exception ignored in a callback of sinter"


def _renew_lock() -> None:
    """Another thread of the parent may have held it."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def register(target: Callable[..., Any]) -> int:
    """A key for `target`."""
    if not callable(target):
        raise TypeError(f"a callback is a {type(target).__name__}, which cannot be called")
    with _lock:
        key = next(_keys)
        _targets[key] = target
    return key


def forget(key: int) -> None:
    """Later calls with `key` do nothing."""
    with _lock:
        _targets.pop(key, None)


def target_of(key: Optional[int]) -> Optional[Callable[..., Any]]:
    """The target of `key`; None once it is forgotten."""
    return _targets.get(key or 0)


def count() -> int:
    """Callbacks that are registered."""
    return len(_targets)


def inside() -> bool:
    """Whether this thread runs a callback."""
    return getattr(_here, "depth", 0) > 0


@contextmanager
def reporting(options: Any, progress: Optional[Callable[..., Any]]) -> Iterator[int]:
    """A call of the library whose `options` report to `progress`, if it is given. Gives the key, which is forgotten if the block raises."""
    key = 0
    if progress is not None:
        key = register(progress)
        options.progress, options.progress_user_data = progress_function, key
    try:
        yield key
    except BaseException:
        forget(key)
        raise


def _deliver(key: Optional[int], *arguments: Any) -> None:
    target = _targets.get(key or 0)
    if target is None:
        return
    _here.depth = getattr(_here, "depth", 0) + 1
    try:
        target(*arguments)
    except Exception as error:  # an exception cannot pass through C
        _report(error, target)
    finally:
        _here.depth -= 1


def _report(error: Exception, target: Any) -> None:
    """Reports to ``sys.unraisablehook``. If that is Python's own, which only accepts objects of the interpreter, prints in its form."""
    hook: Any = sys.unraisablehook
    if hook is not sys.__unraisablehook__:
        fields = dict(exc_type=type(error), exc_value=error, exc_traceback=error.__traceback__, err_msg=_IGNORED, object=target)
        hook(types.SimpleNamespace(**fields))
    elif sys.stderr is not None:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
        sys.stderr.write(f"{_IGNORED}: {target!r}\n{''.join(lines)}")


def _log(key: Optional[int], level: int, message: bytes) -> None:
    _deliver(key, level, (message or b"").decode("utf-8", "replace"))


def _progress(key: Optional[int], stage: bytes, fraction: float) -> None:
    _deliver(key, (stage or b"").decode("utf-8", "replace"), fraction)


def _ready(key: Optional[int], _pending: Optional[int], _status: int) -> None:
    try:
        _deliver(key)
    finally:
        forget(key or 0)


log_function = _abi.LogCallback(_log)
progress_function = _abi.ProgressCallback(_progress)
ready_function = _abi.ReadyCallback(_ready)


def end_calls() -> None:
    """Keeps the library's threads from running Python from now on. Waits for running callbacks, at most 10 s.

    A finishing interpreter ends threads that try to enter it, and unwinding the library's frames below them would end the process.
    """
    for function in (log_function, progress_function, ready_function):
        error = ctypes.c_void_p()
        library().sinter_x_end_calls(ctypes.cast(function, _abi.XFunction), ctypes.byref(error))
        library().sinter_error_release(error)
        # Never freed: an interpreter that is started again in this process gets functions at other addresses.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
