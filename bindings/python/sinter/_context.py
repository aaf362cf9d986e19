"""Contexts: one device or target, its caches and counters; and what prepares."""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import enum
import json
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Generator, List, Optional, Sequence, Tuple, Union

from . import _abi, _callbacks, _handle
from ._buffers import torch_module
from ._chain import M_MAX, Chain, ChainLike
from ._driver import Driver, InFlight
from ._error import Error, Status, invalid
from ._handle import Handle
from ._library import call, call_for_digest, call_for_text, encode, library, raise_error, take_text
from ._nvrtc import find_nvrtc
from ._shape import integer
from ._stream import StreamLike, handle as stream_handle
from ._tuning import TuningSet
from ._workspace import Workspaces

if TYPE_CHECKING:
    from ._plan import Plan

PathLike = Union[str, "os.PathLike[str]"]
Progress = Callable[[str, float], Any]
Log = Callable[[int, str], Any]

_CHOICE = {"best": 0, "fused": 1, "unfused": 2}
_LOG_LEVEL = {"error": 1, "warn": 2, "info": 3, "debug": 4, "off": 5}
_MAX_US = 2**62
# How long a waiting thread is deaf to signals.
_SLICE_US = 50_000


class LogLevel(enum.IntEnum):
    """Levels of log messages."""

    ERROR = 1
    WARN = 2
    INFO = 3
    DEBUG = 4


@dataclasses.dataclass(frozen=True)
class Stats:
    """Counters since the context was made; ``sinter_stats`` of sinter.h explains each."""

    nvrtc_loaded: int
    prepares: int
    plan_hits: int
    searched: int
    kernels_compiled: int
    kernel_hits: int
    kernels_loaded: int
    launches: int
    waits: int
    wrong_kernels: int
    non_resident_fallbacks: int
    cache_memory_hits: int
    cache_local_hits: int
    cache_puts: int
    cache_put_failures: int
    cache_quarantined: int
    cache_misses: int
    cache_absent: int
    cache_damaged: int
    cache_foreign_arch: int
    cache_other_format: int
    cache_other_toolchain: int
    cache_refused_owner: int
    cache_in_quarantine: int
    cache_disabled: int
    cache_io_errors: int
    search_us: float
    compile_us: float
    tuned_plans: int
    tuned_refused: int
    cache_pack_hits: int
    cache_packs_open: int
    cache_packs_refused: int
    cache_puts_dropped: int
    cache_evicted: int
    cache_remote_hits: int
    cache_remote_puts: int
    cache_remote_errors: int
    cache_remote_down: int
    cache_remote_opened: int
    compile_seconds_saved: float
    gpu_time_saved_us: float
    modules_loaded: int
    module_bytes: int
    modules_unloaded: int


_live: "weakref.WeakSet[Context]" = weakref.WeakSet()
_under_way: "weakref.WeakSet[Pending]" = weakref.WeakSet()


class Context(Handle):
    """A GPU, or a named target without one: configuration, caches, counters. Thread-safe.

    The driver is opened here, not when the package is imported. Whatever is left at None follows its environment
    variable (docs/configuration.md), which the library reads once, here.

    Args:
        device: ordinal of the GPU; by default torch's current device where torch uses CUDA already, else 0.
        target: "h200", "h100" or the text of a device model: prepare for it, no GPU used.
        cache_dir: folder of plans and kernels; "" for memory only.
        dump_dir: folder for chain, plan, source and log of every prepare.
        nvrtc_path: libnvrtc to open; by default the one of torch's or NVIDIA's wheels, else the loader's.
        driver_path: libcuda to open.
        cache, cache_read_only, cache_store, cache_max_bytes: the local tier.
        must_hit: a cache miss is ``Status.CACHE_MISS`` instead of a compilation.
        must_hit_verified: as must_hit, and every kernel must have been checked on a GPU.
        deterministic: fixed reduction order in every plan.
        verify: check a new kernel against the unfused plan at its first prepare.
        log: called with (level, message) from any thread; it must not call the package. Default: standard error.
        log_level: "error", "warn", "info", "debug" or "off".
        tuning_set: file of choices that were measured.
        packs: pack files, looked up in this order after cache_dir; pack_keys: PEM file of keys that may sign them;
            unsigned_packs: take packs that nobody signed.
        remote, remote_name_space, remote_key_file, remote_password_file, remote_publish: the remote store.
        deny_toolchains: compilers whose kernels are refused.
        module_cache_bytes: cap on the code loaded on the GPU.

    Raises:
        Error: UNAVAILABLE without a driver or such a GPU; FAILED_PRECONDITION for a GPU that is not sm_90;
            INVALID_ARGUMENT for an option or an environment variable.
    """

    __slots__ = ("device", "target", "_has_device", "_log_key", "_workspaces", "_driver", "_in_flight")
    _release_name = "sinter_context_release"

    def __init__(
        self,
        device: Optional[int] = None,
        *,
        target: Optional[str] = None,
        cache_dir: Optional[PathLike] = None,
        dump_dir: Optional[PathLike] = None,
        nvrtc_path: Optional[PathLike] = None,
        driver_path: Optional[PathLike] = None,
        cache: Optional[bool] = None,
        cache_read_only: Optional[bool] = None,
        cache_store: Optional[str] = None,
        cache_max_bytes: int = 0,
        must_hit: Optional[bool] = None,
        must_hit_verified: Optional[bool] = None,
        deterministic: Optional[bool] = None,
        verify: Optional[bool] = None,
        log: Optional[Log] = None,
        log_level: Optional[str] = None,
        tuning_set: Optional[PathLike] = None,
        packs: Optional[Sequence[PathLike]] = None,
        unsigned_packs: Optional[bool] = None,
        pack_keys: Optional[PathLike] = None,
        remote: Optional[str] = None,
        remote_name_space: Optional[str] = None,
        remote_key_file: Optional[PathLike] = None,
        remote_password_file: Optional[PathLike] = None,
        remote_publish: Optional[bool] = None,
        deny_toolchains: Optional[str] = None,
        module_cache_bytes: int = 0,
    ) -> None:
        self._pointer = None
        self._log_key = 0
        if target is None and device is None:
            device = _current_device()
        options = _abi.ContextOptions(
            device=0 if device is None else integer(device, "device", 0, 2**31 - 1),
            log_level=0 if log_level is None else _named(_LOG_LEVEL, log_level, "log_level"),
            cache_max_bytes=integer(cache_max_bytes, "cache_max_bytes", 0, 2**64 - 1),
            module_cache_bytes=integer(module_cache_bytes, "module_cache_bytes", 0, 2**64 - 1),
        )
        strings = dict(target=target, cache_dir=cache_dir, dump_dir=dump_dir, driver_path=driver_path)
        strings.update(nvrtc_path=find_nvrtc() if nvrtc_path is None else nvrtc_path)
        strings.update(tuning_set=tuning_set, pack_keys=pack_keys, cache_store=cache_store, remote=remote)
        strings.update(remote_name_space=remote_name_space, remote_key_file=remote_key_file)
        strings.update(remote_password_file=remote_password_file, deny_toolchains=deny_toolchains)
        for name, value in strings.items():
            if value is not None:
                setattr(options, name, encode(value, name))
        switches = dict(cache=cache, cache_read_only=cache_read_only, must_hit=must_hit, verify=verify)
        switches.update(deterministic=deterministic, must_hit_verified=must_hit_verified)
        switches.update(unsigned_packs=unsigned_packs, remote_publish=remote_publish)
        for name, switch in switches.items():
            setattr(options, name, 0 if switch is None else 1 if switch else 2)
        if packs is not None:
            if isinstance(packs, (str, bytes)):
                raise TypeError("packs is one string, not a sequence of paths")
            paths = [encode(path, f"packs[{i}]") for i, path in enumerate(packs)]
            options.packs = (ctypes.c_char_p * max(len(paths), 1))(*paths)
            options.pack_count = len(paths)
        if log is not None:
            self._log_key = _callbacks.register(log)
            options.log, options.log_user_data = _callbacks.log_function, self._log_key
        pointer = ctypes.c_void_p()
        try:
            call("sinter_context_create", ctypes.byref(options), ctypes.byref(pointer))
        except BaseException:
            _callbacks.forget(self._log_key)
            raise
        self._has_device: bool = library().sinter_context_has_device(pointer) != 0
        super().__init__(pointer, drives=self._has_device)
        #: Ordinal of the GPU; None for a target without one.
        self.device: Optional[int] = int(options.device) if self._has_device else None
        #: The target as given, or None.
        self.target = target
        self._workspaces = Workspaces(self)
        self._driver = Driver(None if driver_path is None else os.fsdecode(driver_path), self.device or 0)
        self._in_flight = InFlight(self._driver)
        _live.add(self)

    def __repr__(self) -> str:
        return f"<sinter.Context {f'device {self.device}' if self._has_device else f'target {(self.target or str())[:40]}'}>"

    @property
    def has_device(self) -> bool:
        """Whether plans can be launched."""
        return self._has_device

    def close(self) -> None:
        """Writes what waits to be written, frees the workspaces and drops this reference. May be called again.

        Nothing that was launched may be under way, and no graph that holds a launch may be replayed afterwards. Plans
        can still be asked, and launched with a workspace of the caller's. A context that is dropped without ``close``
        keeps its workspaces, because graphs may hold them.
        """
        if self._pointer is None:
            return
        self._flush_quietly()
        self._workspaces.forget()
        self._release()

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _release(self) -> None:
        super()._release()
        _callbacks.forget(self._log_key)

    def _flush_quietly(self) -> None:
        """Records are written behind their makers; one that cannot be written is counted, not raised."""
        try:
            self.flush()
        except Error:
            pass

    def flush(self) -> None:
        """Returns once all records made so far are on disk, or were refused by it: others find them from then on."""
        call("sinter_x_cache_flush", self._get())

    # ------------------------------------------------------------ Preparing

    def prepare(
        self,
        chain: ChainLike,
        m: Optional[int] = None,
        *,
        timeout: Optional[float] = None,
        deterministic: bool = False,
        must_hit: bool = False,
        verify: bool = False,
        choice: str = "best",
        progress: Optional[Progress] = None,
        stream: StreamLike = None,
    ) -> "Plan":
        """A plan that serves every number of rows up to the bucket of `m`. Blocks; an exception from a signal cancels it.

        While NVRTC's front end runs, some tenths of a second a kernel, Ctrl-C ends the process: it has a handler of
        its own.

        Args:
            chain: a Chain, or its text or JSON form.
            m: rows, 0 to 2^31 - 1; by default the number in the text. Ignored where the chain has no M.
            timeout: seconds; what was finished stays cached.
            deterministic, must_hit, verify: as in Context, for this plan.
            choice: "best", or for measuring "fused" or "unfused".
            progress: called with (stage, fraction) from any thread.
            stream: the stream that the plan is meant for; if it captures, the error is STREAM_CAPTURING.

        Raises:
            Error: NO_LEGAL_PLAN, COMPILE_FAILED, CACHE_MISS, DEADLINE_EXCEEDED, UNAVAILABLE (a miss without a
                compiler), DRIVER, STREAM_CAPTURING, INVALID_ARGUMENT.
        """
        pending = self.prepare_async(
            chain,
            m,
            timeout=timeout,
            deterministic=deterministic,
            must_hit=must_hit,
            verify=verify,
            choice=choice,
            progress=progress,
            stream=stream,
        )
        try:
            return pending.result()
        finally:
            pending.close()

    def prepare_async(
        self,
        chain: ChainLike,
        m: Optional[int] = None,
        *,
        timeout: Optional[float] = None,
        deterministic: bool = False,
        must_hit: bool = False,
        verify: bool = False,
        choice: str = "best",
        progress: Optional[Progress] = None,
        stream: StreamLike = None,
    ) -> "Pending":
        """Starts a prepare on a thread of the library; arguments as in ``prepare``. ``await`` it, or call ``result``."""
        chain = Chain.of(chain)
        rows = rows_of(chain, m)
        options = _prepare_options(timeout, deterministic, must_hit, verify, choice, stream)
        key = 0
        if progress is not None:
            key = _callbacks.register(progress)
            options.progress, options.progress_user_data = _callbacks.progress_function, key
        pointer = ctypes.c_void_p()
        try:
            call("sinter_prepare_async", self._get(), chain._get(), rows, ctypes.byref(options), ctypes.byref(pointer))
        except BaseException:
            _callbacks.forget(key)
            raise
        return Pending(pointer, self, chain, key)

    def prepare_many(
        self,
        chains: Sequence[ChainLike],
        ms: Optional[Sequence[Optional[int]]] = None,
        *,
        threads: int = 0,
        timeout: Optional[float] = None,
        deterministic: bool = False,
        must_hit: bool = False,
        verify: bool = False,
        progress: Optional[Progress] = None,
    ) -> "List[Plan]":
        """Plans for all of `chains` at the rows `ms`, in parallel. Blocks; an exception from a signal cancels it.

        Args:
            threads: at most so many at once; 0: one per processor, at most 16.
            timeout: seconds, of the whole call.

        Raises:
            Error: the first by index, which the message names; what was finished stays cached.
        """
        if isinstance(chains, str):
            raise TypeError("chains is one string, not a sequence of chains")
        items = [Chain.of(chain) for chain in chains]
        given: Sequence[Optional[int]] = [None] * len(items) if ms is None else list(ms)
        if len(given) != len(items):
            raise invalid(f"ms has {len(given)} items, chains has {len(items)}")
        rows = [rows_of(chain, m) for chain, m in zip(items, given)]
        options = _prepare_options(timeout, deterministic, must_hit, verify, "best", None)
        options.threads = integer(threads, "threads", 0, 2**32 - 1)
        return _Many(self, items, rows, options, progress).run() if items else []

    def tune(
        self,
        chain: ChainLike,
        m: Optional[int] = None,
        *,
        into: Optional["TuningSet"] = None,
        timeout: Optional[float] = None,
        top_k: int = 0,
        switch_margin: float = 0.0,
        deterministic: bool = False,
        keep: bool = False,
    ) -> str:
        """Builds the best candidates, checks and measures them on the GPU, and adds the choice to `into`. Blocks.

        Args:
            timeout: seconds; what was measured by then decides.
            top_k: candidates; 0 means 11.
            switch_margin: a tuned choice must be faster by this fraction; 0 means 0.02.
            keep: an entry of `into` that can still be used stays, unmeasured.

        Returns:
            A report for people. No plan changes: a context takes choices only from its ``tuning_set``.

        Raises:
            Error: UNAVAILABLE without a GPU; FAILED_PRECONDITION when no candidate could be measured.
        """
        chain = Chain.of(chain)
        if into is not None and not isinstance(into, TuningSet):
            raise TypeError(f"into is a {type(into).__name__}, not a sinter.TuningSet")
        flags = (_abi.TUNE_DETERMINISTIC if deterministic else 0) | (_abi.TUNE_KEEP if keep else 0)
        options = _abi.TuneOptions(
            flags=flags,
            deadline_us=_microseconds(timeout),
            top_k=integer(top_k, "top_k", -(2**31), 2**31 - 1),
            switch_margin=float(switch_margin),
            into=into._get() if into is not None else None,
        )
        return call_for_text(
            "sinter_x_tune", self._get(), chain._get(), rows_of(chain, m), ctypes.byref(options)
        )

    # ------------------------------------------------------------ Asking

    def stats(self) -> Stats:
        """Counters since the context was made."""
        stats = _abi.Stats()
        call("sinter_context_get_stats", self._get(), ctypes.byref(stats))
        return Stats(**{field.name: getattr(stats, field.name) for field in dataclasses.fields(Stats)})

    def describe(self) -> Dict[str, Any]:
        """Device, its model with every constant, cache folder and library."""
        described: Dict[str, Any] = json.loads(call_for_text("sinter_x_context_describe", self._get()))
        return described

    @property
    def tuning_digest(self) -> str:
        """Digest of the context's tuning set, 64 hex digits; zeros without one."""
        return call_for_digest("sinter_context_get_tuning_digest", self._get())

    def deny_toolchains(self, entries: str) -> None:
        """Refuses kernels by the compiler that made them: NVRTC versions or build ids, separated by commas."""
        if not isinstance(entries, str):
            raise TypeError(f"entries is a {type(entries).__name__}, not a str")
        call("sinter_context_deny_toolchains", self._get(), encode(entries, "entries"))


class Pending(Handle):
    """A prepare under way. ``await pending``, or ``pending.result()``. Thread-safe.

    When the last reference goes, the prepare is cancelled.
    """

    __slots__ = ("context", "chain", "_progress_key")
    _release_name = "sinter_pending_release"

    def __init__(self, pointer: ctypes.c_void_p, context: Context, chain: Chain, progress_key: int) -> None:
        super().__init__(pointer)
        self.context = context
        self.chain = chain
        self._progress_key = progress_key
        _under_way.add(self)

    def done(self) -> bool:
        """Whether ``result`` would return at once."""
        return self._pointer is None or library().sinter_pending_poll(self._get()) != 0

    def result(self, timeout: Optional[float] = None) -> "Plan":
        """The plan, or the prepare's error. Waits at most `timeout` seconds; may be called again.

        Raises:
            TimeoutError: it is still under way. Error: the prepare's own.
        """
        end = None if timeout is None else time.monotonic() + _seconds(timeout)
        while True:
            left = _SLICE_US if end is None else min(_SLICE_US, max(0, int((end - time.monotonic()) * 1e6)))
            plan = self._take(left)
            if plan is not None:
                return plan
            if end is not None and time.monotonic() >= end:
                raise TimeoutError(f"the prepare is still under way after {timeout} s")

    def close(self) -> None:
        """Cancels what is under way and waits until it has stopped. May be called again."""
        self._release()

    cancel = close

    def __await__(self) -> "Generator[Any, None, Plan]":
        return self._wait().__await__()

    async def _wait(self) -> "Plan":
        import asyncio

        pause = 0.001
        try:
            while not self.done():
                await asyncio.sleep(pause)
                pause = min(pause * 2, 0.02)
        except asyncio.CancelledError:
            self.close()
            raise
        return self.result()

    def _take(self, wait_us: int) -> "Optional[Plan]":
        from ._plan import Plan

        was_done = self.done()
        pointer, error = ctypes.c_void_p(), ctypes.c_void_p()
        status = library().sinter_pending_get(self._get(), wait_us, ctypes.byref(pointer), ctypes.byref(error))
        if status == 0:
            return Plan(pointer, self.context, self.chain)
        if status == Status.DEADLINE_EXCEEDED and not was_done:
            # Either it is still under way, or it ended by its own deadline: the next call tells.
            library().sinter_error_release(error)
            return None
        raise_error(status, error)
        return None

    def _release(self) -> None:
        super()._release()
        _callbacks.forget(self._progress_key)


class _Many:
    """One sinter_prepare_many on a thread of its own, so that the caller's hears signals."""

    def __init__(
        self, context: Context, chains: List[Chain], rows: List[int], options: Any, progress: Optional[Progress]
    ) -> None:
        self._context = context
        self._chains = chains
        self._arguments = (
            context._get(),
            len(chains),
            (ctypes.c_void_p * len(chains))(*[chain._get().value for chain in chains]),
            (ctypes.c_int64 * len(chains))(*rows),
            ctypes.byref(options),
        )
        self._options = options
        self._plans = (ctypes.c_void_p * len(chains))()
        self._progress = progress
        self._failure: Optional[BaseException] = None

    def run(self) -> "List[Plan]":
        from ._plan import Plan

        cancel = ctypes.c_void_p()
        call("sinter_cancel_create", ctypes.byref(cancel))
        self._options.cancel = cancel
        key = 0
        try:
            if self._progress is not None:
                key = _callbacks.register(self._progress)
                self._options.progress = _callbacks.progress_function
                self._options.progress_user_data = key
            self._wait_for(threading.Thread(target=self._prepare, name="sinter.prepare_many"), cancel)
        finally:
            _callbacks.forget(key)
            library().sinter_cancel_release(cancel)
        plans = [
            Plan(ctypes.c_void_p(pointer), self._context, chain) if pointer else None
            for pointer, chain in zip(self._plans, self._chains)
        ]
        if self._failure is not None:
            raise self._failure
        return [plan for plan in plans if plan is not None]

    def _prepare(self) -> None:
        try:
            call("sinter_prepare_many", *self._arguments, self._plans, None)
        except BaseException as failure:
            self._failure = failure

    @staticmethod
    def _wait_for(thread: threading.Thread, cancel: ctypes.c_void_p) -> None:
        thread.start()
        try:
            while thread.is_alive():
                thread.join(_SLICE_US / 1e6)
        except BaseException:
            library().sinter_cancel_request(cancel)
            thread.join()
            raise


def rows_of(chain: Chain, m: Optional[int]) -> int:
    """`m`, or the number in the chain's text.

    Raises:
        Error: INVALID_ARGUMENT when there is neither, or m is out of range.
    """
    if m is None:
        m = chain.m
    if m is None:
        if chain.uses_m:
            raise invalid("m is not given, and the chain leaves it open: prepare(chain, m=ROWS)")
        return 0
    return integer(m, "m", 0, M_MAX)


def _prepare_options(
    timeout: Optional[float], deterministic: bool, must_hit: bool, verify: bool, choice: str, stream: StreamLike
) -> Any:
    flags = _abi.PREPARE_DETERMINISTIC if deterministic else 0
    flags |= _abi.PREPARE_MUST_HIT if must_hit else 0
    flags |= _abi.PREPARE_VERIFY if verify else 0
    return _abi.PrepareOptions(
        flags=flags,
        deadline_us=_microseconds(timeout),
        choice=_named(_CHOICE, choice, "choice"),
        stream=stream_handle(stream) or None,
    )


def _seconds(timeout: Any) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout is {timeout!r}, which is no number of seconds")
    if not timeout >= 0:
        raise invalid(f"timeout is {timeout}, not 0 or more seconds")
    return float(min(timeout, _MAX_US / 1e6))


def _microseconds(timeout: Optional[float]) -> int:
    """A deadline; 0 means none to the library, so the shortest is 1."""
    return 0 if timeout is None else max(1, int(_seconds(timeout) * 1e6))


def _named(table: Dict[str, int], value: Any, name: str) -> int:
    if not isinstance(value, str) or value not in table:
        raise invalid(f"{name} is {value!r}; there are {' '.join(table)}")
    return table[value]


def _current_device() -> int:
    torch = torch_module()
    if torch is not None and getattr(torch, "cuda", None) is not None and torch.cuda.is_initialized():
        return int(torch.cuda.current_device())
    return 0


@atexit.register
def _end() -> None:
    """Stops the library's threads before the interpreter goes, and has the records that wait written: what a module
    holds is never given back otherwise."""
    for pending in list(_under_way):
        if pending._made == _handle._generation:
            pending.close()
    for context in list(_live):
        if context._pointer is not None:
            context._flush_quietly()
