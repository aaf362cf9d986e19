"""Prepares under way: a single one that can be awaited, and many at once."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Generator, List, Optional

from . import _abi, _callbacks
from ._argument import flag, integer, microseconds, named, seconds
from ._chain import M_MAX, Chain
from ._error import Error, Status, invalid
from ._handle import Closable
from ._library import call, library, raise_error
from ._plan import Plan
from ._stream import StreamLike, handle as stream_handle

#: How many candidates a prepare may measure.
MOST_CANDIDATES = 64

if TYPE_CHECKING:
    from ._context import Context

Progress = Callable[[str, float], Any]

# The longest time for which a waiting thread does not handle signals.
_SLICE_US = 50_000
# How often an awaiting task polls if its event loop watches no descriptors.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05

# Objects that wait for a thread of the library: prepares and slots.
under_way: "weakref.WeakSet[Any]" = weakref.WeakSet()


def rows_of(chain: Chain, m: Optional[int]) -> int:
    """`m`, or the number in the chain's text.

    Raises:
        Error: INVALID_ARGUMENT when there is neither, or m is out of range.
    """
    if m is None:
        m = chain.m
    if m is None:
        if chain.uses_m:
            raise invalid("m is not given, and the chain leaves it open: prepare(chain, m=ROWS)", "m")
        return 0
    return integer(m, "m", 0, M_MAX)


def checked_measure(measure: int) -> int:
    """`measure` of a prepare or a context.

    Raises:
        Error: INVALID_ARGUMENT for a number that is out of range.
    """
    return integer(measure, "measure", -1, MOST_CANDIDATES)


def prepare_options(
    timeout: Optional[float],
    batch_invariant: bool,
    must_hit: bool,
    no_build: bool,
    verify: bool,
    choice: str,
    measure: int,
    measure_seconds: Optional[float],
    stream: StreamLike,
) -> Any:
    """The C options of a prepare, without its callback."""
    flags = _abi.PREPARE_BATCH_INVARIANT if flag(batch_invariant, "batch_invariant") else 0
    flags |= _abi.PREPARE_MUST_HIT if flag(must_hit, "must_hit") else 0
    flags |= _abi.PREPARE_NO_BUILD if flag(no_build, "no_build") else 0
    flags |= _abi.PREPARE_VERIFY if flag(verify, "verify") else 0
    return _abi.PrepareOptions(
        flags=flags,
        deadline_us=microseconds(timeout),
        choice=named(_abi.CHOICE, choice, "choice"),
        measure=checked_measure(measure),
        measure_budget_us=microseconds(measure_seconds),
        stream=stream_handle(stream) or None,
    )


class Pending(Closable):
    """A prepare under way. ``await pending``, or ``pending.result()``. Thread-safe.

    When the last reference goes, or the last task that awaits it is cancelled or closed, the prepare is cancelled.
    """

    __slots__ = ("context", "chain", "_awaiting", "_lock")
    _release_name = "sinter_pending_release"
    _close_seconds = 5

    def __init__(self, pointer: ctypes.c_void_p, context: "Context", chain: Chain, progress_key: int) -> None:
        super().__init__(pointer, key=progress_key)
        self.context = context
        self.chain = chain
        self._awaiting = 0
        self._lock = threading.Lock()
        under_way.add(self)

    def _told(self) -> str:
        return f"of {self.chain!r}, {'ended' if self.done() else 'under way'}"

    def done(self) -> bool:
        """Whether ``result`` would return at once."""
        try:
            with self._in_call() as pending:
                return bool(library().sinter_pending_poll(pending))
        except Error:
            return True  # closed

    def result(self, timeout: Optional[float] = None) -> "Plan":
        """The plan, or the prepare's error. Waits at most `timeout` seconds; may be called again.

        Raises:
            TimeoutError: it is still under way. Error: the prepare's own.
        """
        end = None if timeout is None else time.monotonic() + seconds(timeout)
        while True:
            left = _SLICE_US if end is None else min(_SLICE_US, max(0, int((end - time.monotonic()) * 1e6)))
            plan = self._take(left)
            if plan is not None:
                return plan
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"the prepare is still under way after {timeout} s")

    def fileno(self) -> int:
        """A descriptor for ``select`` or an event loop. Once the prepare has ended it stays readable. It is closed with the object.

        Raises:
            Error: UNAVAILABLE if the system has none left.
        """
        with self._in_call() as pending:
            fd = int(library().sinter_pending_get_fd(pending))
        if fd < 0:
            raise Error(Status.UNAVAILABLE, "there is no descriptor for the prepare")
        return fd

    def add_done_callback(self, callback: Callable[[], Any]) -> None:
        """Calls ``callback()`` once: on a thread of the library when the prepare ends, or now if it has.

        An interpreter that ends waits for a running callback, at most 10 s, and starts none.
        """
        key = _callbacks.register(callback)
        try:
            with self._in_call() as pending:
                call("sinter_pending_on_ready", pending, _callbacks.ready_function, key)
        except BaseException:
            _callbacks.forget(key)
            raise

    def close(self) -> None:
        """Cancels the prepare, if it is under way, and waits until it has stopped; in a callback it does not wait. May be called again."""
        self._close()

    cancel = close

    def __await__(self) -> "Generator[Any, None, Plan]":
        return self._wait().__await__()

    async def _wait(self) -> "Plan":
        import asyncio

        gone = False
        self._count_awaiting(1)
        try:
            await self._until_ended()
        except (asyncio.CancelledError, GeneratorExit):
            gone = True
            raise
        finally:
            if self._count_awaiting(-1) == 0 and gone:
                self.close()
        return self.result()

    async def _until_ended(self) -> None:
        """Awaits without Python code on the library's threads: the loop watches a descriptor, or polls if it cannot watch
        one."""
        import asyncio

        loop = asyncio.get_running_loop()
        watched = -1
        try:
            watched = os.dup(self.fileno())  # a loop watches a descriptor only once, but several tasks may await
            ended = loop.create_future()
            loop.add_reader(watched, _end, ended)
        except (Error, OSError, NotImplementedError):
            await self._look_again()
        else:
            try:
                await ended
            finally:
                loop.remove_reader(watched)
        finally:
            if watched >= 0:
                os.close(watched)

    async def _look_again(self) -> None:
        import asyncio

        pause = _FIRST_PAUSE_S
        while not self.done():
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _count_awaiting(self, change: int) -> int:
        """How many tasks await the prepare, in one event loop or several."""
        with self._lock:
            self._awaiting += change
            return self._awaiting

    def _take(self, wait_us: int) -> "Optional[Plan]":
        was_done = self.done()
        pointer, error = ctypes.c_void_p(), ctypes.c_void_p()
        with self._in_call() as pending:
            status = library().sinter_pending_get(pending, wait_us, ctypes.byref(pointer), ctypes.byref(error))
        if status == 0:
            return Plan(pointer, self.context, self.chain)
        if status == Status.DEADLINE_EXCEEDED and not was_done:
            # Either it is still under way, or it ended by its own deadline: the next call distinguishes the two.
            library().sinter_error_release(error)
            return None
        raise_error(status, error)
        return None


def _end(ended: Any) -> None:
    if not ended.done():
        ended.set_result(None)


def run_cancellable(options: Any, work: Callable[[], None], name: str) -> None:
    """Runs `work`, a call of the library with `options`, on a separate thread, so that the caller's thread handles signals: an
    exception that a signal handler raises cancels the call."""
    failures: List[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    cancel = ctypes.c_void_p()
    call("sinter_cancel_create", ctypes.byref(cancel))
    options.cancel = cancel
    try:
        _wait_for(threading.Thread(target=run, name=name), cancel)
    finally:
        options.cancel = None
        library().sinter_cancel_release(cancel)
    if failures:
        raise failures.pop()  # its frames hold the list


def _wait_for(thread: threading.Thread, cancel: ctypes.c_void_p) -> None:
    thread.start()
    try:
        while thread.is_alive():
            thread.join(_SLICE_US / 1e6)
    except BaseException:
        library().sinter_cancel_request(cancel)
        thread.join()
        raise


def prepare_many(
    context: "Context", chains: List[Chain], rows: List[int], options: Any, progress: Optional[Progress]
) -> "List[Plan]":
    """One sinter_prepare_many on a separate thread, so that the caller's thread handles signals."""
    count = len(chains)
    pointers = (ctypes.c_void_p * count)(*[chain._get().value for chain in chains])
    plans = (ctypes.c_void_p * count)()

    def prepare() -> None:
        with context._in_call() as owner:
            call("sinter_prepare_many", owner, count, pointers, (ctypes.c_int64 * count)(*rows), ctypes.byref(options), plans, None)

    try:
        with _callbacks.reporting(options, progress) as key:
            run_cancellable(options, prepare, "sinter.prepare_many")
        _callbacks.forget(key)
    finally:  # also after an interrupt or a failure: plans that were made are released
        made = [Plan(ctypes.c_void_p(pointer), context, chain) for pointer, chain in zip(plans, chains) if pointer]
    return made
