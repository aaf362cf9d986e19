"""Contexts: one device or target, its caches and counters, and the calls that prepare plans."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from . import _abi, _callbacks, _handle
from ._argument import flag, instance, integer, microseconds, named, number, sequence
from ._buffers import torch_module
from ._chain import Chain, ChainLike
from ._driver import Driver, InFlight
from ._error import Error, invalid
from ._handle import Closable
from ._library import call, call_for_digest, call_for_long_text, call_for_text, encode, is_open, library
from ._nvrtc import find_nvrtc
from ._plan import Plan
from ._prepare import Pending, Progress, checked_measure, prepare_many, prepare_options, rows_of, under_way
from ._search import Search, search
from ._slot import Slot
from ._stats import Stats, read_stats
from ._stream import StreamLike
from ._tuning import TuningSet
from ._workspace import Workspaces

PathLike = Union[str, "os.PathLike[str]"]
Log = Callable[[int, str], Any]

_LOG_LEVEL = {level.name.lower(): int(level) for level in _abi.LogLevel}

_live: "weakref.WeakSet[Context]" = weakref.WeakSet()


class Context(Closable):
    """A GPU, or a named target without one: configuration, caches, counters. Thread-safe.

    The driver is opened here, not when the package is imported. Every argument that is None follows its environment
    variable (docs/configuration.md), which the library reads once, here.

    Args:
        device: ordinal of the GPU; by default torch's current device where torch uses CUDA already, else 0.
        target: "h200", "a100" and so on, or the text of a device model: prepare for it, no GPU used.
        cache_dir: folder of plans and kernels; "" for memory only.
        dump_dir: folder for chain, plan, source and log of every prepare.
        nvrtc_path: libnvrtc to open; by default the one of torch's or NVIDIA's wheels, else the loader's.
        driver_path: libcuda to open.
        cache, cache_read_only, cache_store, cache_max_bytes: the local tier.
        must_hit: a cache miss is ``Status.CACHE_MISS`` instead of a compilation.
        must_hit_verified: as must_hit, and every kernel must have been checked on a GPU.
        batch_invariant: a row's bits do not depend on how many rows there are.
        verify: check a new kernel against the plain plan at its first prepare.
        log: called with (level, message) from any thread; it must not call the package. Default: standard error.
        log_level: "error", "warn", "info", "debug" or "off".
        tuning_set: file of choices that were measured.
        packs: pack files, looked up in this order after cache_dir; pack_keys: PEM file of keys that may sign them;
            unsigned_packs: take packs that nobody signed.
        remote, remote_name_space, remote_key_file, remote_password_file, remote_publish: the remote store.
        deny_toolchains: compilers whose kernels are refused.
        module_cache_bytes: cap on the code loaded on the GPU.
        device_model: model file of the GPU, as ``sinter device --measure`` prints one; "": the built-in model that is nearest.
        measure: candidates that prepares measure on the GPU, to 64; -1: none. Where nothing can be measured, prediction chooses.
        slot_measure: slots measure what prediction chose, in the background; prepares take what was measured from the cache.

    Raises:
        Error: UNAVAILABLE without a driver or such a GPU; FAILED_PRECONDITION for a GPU before sm_80;
            INVALID_ARGUMENT for an option or an environment variable.
    """

    __slots__ = ("device", "target", "_has_device", "_slots_measure", "_workspaces", "_driver", "_in_flight")
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
        batch_invariant: Optional[bool] = None,
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
        device_model: Optional[str] = None,
        measure: int = 0,
        slot_measure: Optional[bool] = None,
    ) -> None:
        if target is not None and device is not None:
            raise invalid(f"device is {device!r} beside a target, which uses no GPU: give one of them")
        if target is None and device is None:
            device = _current_device()
        options = _abi.ContextOptions(
            device=0 if device is None else integer(device, "device", 0, 2**31 - 1),
            log_level=0 if log_level is None else named(_LOG_LEVEL, log_level, "log_level"),
            cache_max_bytes=integer(cache_max_bytes, "cache_max_bytes", 0, 2**64 - 1),
            module_cache_bytes=integer(module_cache_bytes, "module_cache_bytes", 0, 2**64 - 1),
            measure=checked_measure(measure),
        )
        _set_strings(
            options,
            target=target,
            cache_dir=cache_dir,
            dump_dir=dump_dir,
            nvrtc_path=find_nvrtc() if nvrtc_path is None else nvrtc_path,
            driver_path=driver_path,
            tuning_set=tuning_set,
            pack_keys=pack_keys,
            cache_store=cache_store,
            remote=remote,
            remote_name_space=remote_name_space,
            remote_key_file=remote_key_file,
            remote_password_file=remote_password_file,
            deny_toolchains=deny_toolchains,
            device_model=device_model,
        )
        _set_switches(
            options,
            cache=cache,
            cache_read_only=cache_read_only,
            must_hit=must_hit,
            must_hit_verified=must_hit_verified,
            batch_invariant=batch_invariant,
            verify=verify,
            unsigned_packs=unsigned_packs,
            remote_publish=remote_publish,
            slot_measure=slot_measure,
        )
        _set_packs(options, packs)
        key = 0
        if log is not None:
            key = _callbacks.register(log)
            options.log, options.log_user_data = _callbacks.log_function, key
        pointer = ctypes.c_void_p()
        try:
            call("sinter_context_create", ctypes.byref(options), ctypes.byref(pointer))
        except BaseException:
            _callbacks.forget(key)
            raise
        self._has_device: bool = library().sinter_context_has_device(pointer) != 0
        super().__init__(pointer, self._has_device, key)
        #: Ordinal of the GPU; None for a target without one.
        self.device: Optional[int] = int(options.device) if self._has_device else None
        #: Whether slots measure plans, as far as arguments and the environment say.
        self._slots_measure: bool = self._has_device and _slots_measure(options)
        #: The target as given, or None.
        self.target = target
        self._workspaces = Workspaces(self)
        self._driver = Driver(None if driver_path is None else os.fsdecode(driver_path), self.device or 0)
        self._in_flight = InFlight(self._driver)
        _live.add(self)

    def _told(self) -> str:
        return f"device {self.device}" if self._has_device else f"target {(self.target or '')[:40]}"

    @property
    def has_device(self) -> bool:
        """Whether plans can be launched."""
        return self._has_device

    def close(self) -> None:
        """Writes pending records, frees the workspaces and drops this reference. May be called again.

        Nothing that was launched may be under way, and no graph that holds a launch may be replayed afterwards. Plans
        can still be asked, and launched with a workspace of the caller's. A context that is dropped without ``close``
        keeps its workspaces, because graphs may hold them.
        """
        try:
            with self._in_call():
                self._flush_quietly()
                self._workspaces.forget()
        except Error:
            pass  # closed, or the parent's
        self._close()

    def __enter__(self) -> "Context":
        self._checked()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _flush_quietly(self) -> None:
        """Writes pending records, which are written in the background. A record that cannot be written is counted, not raised."""
        try:
            self.flush()
        except Error:
            pass

    def flush(self) -> None:
        """Returns once all records made so far are on disk, where other processes find them, or writing them has failed.

        It also writes the events so far of the trace that SINTER_TRACE asks for.
        """
        with self._in_call() as context:
            call("sinter_x_cache_flush", context)

    # ------------------------------------------------------------ Preparing

    def prepare(
        self,
        chain: ChainLike,
        m: Optional[int] = None,
        *,
        timeout: Optional[float] = None,
        batch_invariant: bool = False,
        must_hit: bool = False,
        no_build: bool = False,
        verify: bool = False,
        choice: str = "best",
        measure: int = 0,
        measure_seconds: Optional[float] = None,
        progress: Optional[Progress] = None,
        stream: StreamLike = None,
    ) -> "Plan":
        """A plan that serves every number of rows up to the bucket of `m`. Blocks; an exception from a signal cancels it.

        NVRTC's front end runs for a few tenths of a second for each kernel. Ctrl-C then ends the process, because the front end
        has its own handler.

        Args:
            chain: a Chain, or its text or JSON form.
            m: rows, 0 to 2^31 - 1; by default the number in the text. Ignored where the chain has no M.
            timeout: seconds; what was finished stays cached.
            batch_invariant, must_hit, verify: as in Context, for this plan.
            no_build: return only a plan that is already built, without waiting; else the error is NOT_FOUND.
            choice: "best", or for measuring "unfused", the plain plan, or "fused", any other.
            measure: where no measured choice is kept, so many candidates, to 64, are built and timed on the GPU first, and
                the fastest is kept; FlashFuser measures 11. 0: as the context says; -1: prediction chooses.
            measure_seconds: the most seconds that measuring may take; the measurements by then decide. Default: 20.
            progress: called with (stage, fraction) from any thread.
            stream: the stream that the plan is meant for; if it captures, the error is STREAM_CAPTURING.

        Raises:
            Error: NO_LEGAL_PLAN, COMPILE_FAILED, CACHE_MISS, NOT_FOUND, DEADLINE_EXCEEDED, UNAVAILABLE (a miss
                without a compiler), DRIVER, STREAM_CAPTURING, INVALID_ARGUMENT. With `measure` above 0 also
                UNAVAILABLE without a GPU, FAILED_PRECONDITION for a chain over ranks or where times decide nothing,
                RESOURCE_EXHAUSTED without memory for it.
        """
        pending = self.prepare_async(
            chain,
            m,
            timeout=timeout,
            batch_invariant=batch_invariant,
            must_hit=must_hit,
            no_build=no_build,
            verify=verify,
            choice=choice,
            measure=measure,
            measure_seconds=measure_seconds,
            progress=progress,
            stream=stream,
        )
        try:
            return pending.result()
        finally:
            pending.close()

    def search(
        self,
        chain: ChainLike,
        m: Optional[int] = None,
        *,
        timeout: Optional[float] = None,
        batch_invariant: bool = False,
        must_hit: bool = False,
        no_build: bool = False,
        choice: str = "best",
        progress: Optional[Progress] = None,
        stream: StreamLike = None,
    ) -> Search:
        """What ``prepare`` would choose, without building it: no compiler is opened, no GPU asked. Blocks; an exception
        from a signal cancels it.

        What the cache knows costs a look-up. Else the chain is searched for, and a ``prepare`` in this context does not
        search again. Arguments are as in ``prepare``, which may run another plan where a compiler or a GPU refuses a
        kernel.

        Raises:
            Error: NO_LEGAL_PLAN, CACHE_MISS, NOT_FOUND, DEADLINE_EXCEEDED, STREAM_CAPTURING, INVALID_ARGUMENT.
        """
        chain = Chain.of(chain)
        options = prepare_options(timeout, batch_invariant, must_hit, no_build, False, choice, 0, None, stream)
        return search(self, chain, rows_of(chain, m), options, progress)

    def prepare_async(
        self,
        chain: ChainLike,
        m: Optional[int] = None,
        *,
        timeout: Optional[float] = None,
        batch_invariant: bool = False,
        must_hit: bool = False,
        no_build: bool = False,
        verify: bool = False,
        choice: str = "best",
        measure: int = 0,
        measure_seconds: Optional[float] = None,
        progress: Optional[Progress] = None,
        stream: StreamLike = None,
    ) -> "Pending":
        """Starts a prepare on a thread of the library; arguments as in ``prepare``. ``await`` it, or call ``result``."""
        chain = Chain.of(chain)
        rows = rows_of(chain, m)
        options = prepare_options(timeout, batch_invariant, must_hit, no_build, verify, choice, measure, measure_seconds, stream)
        pointer = ctypes.c_void_p()
        with _callbacks.reporting(options, progress) as key, self._in_call() as context:
            call("sinter_prepare_async", context, chain._get(), rows, ctypes.byref(options), ctypes.byref(pointer))
        return Pending(pointer, self, chain, key)

    def slot(
        self,
        chain: ChainLike,
        m: Optional[int] = None,
        *,
        manual: bool = False,
        timeout: Optional[float] = None,
        batch_invariant: bool = False,
        must_hit: bool = False,
        verify: bool = False,
        choice: str = "best",
        measure: int = 0,
        measure_seconds: Optional[float] = None,
        progress: Optional[Progress] = None,
        stream: StreamLike = None,
    ) -> "Slot":
        """A slot that always holds the best plan so far. Returns at once: with a plan that is there, else a build starts in the background.

        Args:
            manual: the final plan becomes current only by ``Slot.switch``, so that ranks change at one step.
        The others are as in ``prepare``, for the build.

        Raises:
            Error: as ``prepare`` for a hit. A build's error is ``Slot.plan``'s.
        """
        chain = Chain.of(chain)
        options = prepare_options(timeout, batch_invariant, must_hit, False, verify, choice, measure, measure_seconds, stream)
        return Slot(self, chain, rows_of(chain, m), options, flag(manual, "manual"), progress)

    def prepare_many(
        self,
        chains: Sequence[ChainLike],
        ms: Optional[Sequence[Optional[int]]] = None,
        *,
        threads: int = 0,
        timeout: Optional[float] = None,
        batch_invariant: bool = False,
        must_hit: bool = False,
        no_build: bool = False,
        verify: bool = False,
        measure: int = 0,
        measure_seconds: Optional[float] = None,
        progress: Optional[Progress] = None,
    ) -> "List[Plan]":
        """Plans for all of `chains` at the rows `ms`, in parallel. Blocks; an exception from a signal cancels it.

        Args:
            threads: the most threads at once; 0: one per processor, at most 16.
            timeout: seconds for the whole call.

        Raises:
            Error: the first by index, which the message names; what was finished stays cached.
        """
        if isinstance(chains, str):
            raise TypeError("chains is one string, not a sequence of chains")
        items = [Chain.of(chain) for chain in sequence(chains, "chains")]
        given: Sequence[Optional[int]] = [None] * len(items) if ms is None else sequence(ms, "ms")
        if len(given) != len(items):
            raise invalid(f"ms has {len(given)} items, chains has {len(items)}")
        rows = [rows_of(chain, m) for chain, m in zip(items, given)]
        options = prepare_options(timeout, batch_invariant, must_hit, no_build, verify, "best", measure, measure_seconds, None)
        options.threads = integer(threads, "threads", 0, 2**32 - 1)
        return prepare_many(self, items, rows, options, progress) if items else []

    def tune(
        self,
        chain: ChainLike,
        m: Optional[int] = None,
        *,
        into: Optional["TuningSet"] = None,
        timeout: Optional[float] = None,
        top_k: int = 0,
        switch_margin: float = 0.0,
        batch_invariant: bool = False,
        keep: bool = False,
    ) -> str:
        """Builds the best candidates, checks and measures them on the GPU, and adds the choice to `into`. Blocks.

        Args:
            timeout: seconds; the measurements by then decide.
            top_k: candidates; 0 means 11.
            switch_margin: a tuned choice must be faster by this fraction; 0 means 0.02.
            keep: an entry of `into` that can still be used stays, unmeasured.

        Returns:
            A report for people. No plan changes: a context takes choices only from its ``tuning_set``.

        Raises:
            Error: UNAVAILABLE without a GPU; FAILED_PRECONDITION when no candidate could be measured.
        """
        chain = Chain.of(chain)
        if into is not None:
            instance(into, TuningSet, "into")
        flags = _abi.TUNE_BATCH_INVARIANT if flag(batch_invariant, "batch_invariant") else 0
        flags |= _abi.TUNE_KEEP if flag(keep, "keep") else 0
        options = _abi.TuneOptions(
            flags=flags,
            deadline_us=microseconds(timeout),
            top_k=integer(top_k, "top_k", -(2**31), 2**31 - 1),
            switch_margin=number(switch_margin, "switch_margin"),
            into=into._get() if into is not None else None,
        )
        rows = rows_of(chain, m)
        with self._in_call() as context:
            return call_for_text("sinter_x_tune", context, chain._get(), rows, ctypes.byref(options))

    # ------------------------------------------------------------ Asking

    def stats(self) -> Stats:
        """Counters since the context was made."""
        with self._in_call() as context:
            return read_stats(context)

    def metrics(self) -> str:
        """The counters as Prometheus text, format 0.0.4."""
        with self._in_call() as context:
            return call_for_long_text("sinter_context_write_metrics", context)

    def describe(self) -> Dict[str, Any]:
        """Device, its model with every constant, cache folder, must-hit and library."""
        with self._in_call() as context:
            described: Dict[str, Any] = json.loads(call_for_text("sinter_x_context_describe", context))
        return described

    @property
    def must_hit(self) -> bool:
        """Whether a cache miss is an error: by the argument, else by SINTER_MUST_HIT."""
        return bool(self.describe()["must_hit"])

    @property
    def tuning_digest(self) -> str:
        """Digest of the context's tuning set, 64 hex digits; zeros without one."""
        with self._in_call() as context:
            return call_for_digest("sinter_context_get_tuning_digest", context)

    def deny_toolchains(self, entries: str) -> None:
        """Refuses kernels by the compiler that made them: NVRTC versions or build ids, separated by commas."""
        if not isinstance(entries, str):
            raise TypeError(f"entries is a {type(entries).__name__}, not a str")
        with self._in_call() as context:
            call("sinter_context_deny_toolchains", context, encode(entries, "entries"))


def _set_strings(options: Any, **strings: Optional[PathLike]) -> None:
    for name, value in strings.items():
        if value is not None:
            setattr(options, name, encode(value, name))


def _set_switches(options: Any, **switches: Optional[bool]) -> None:
    """0 follows the environment, 1 is on, 2 is off."""
    for name, value in switches.items():
        setattr(options, name, 0 if value is None else 1 if flag(value, name) else 2)


def _slots_measure(options: Any) -> bool:
    by_environment = os.environ.get("SINTER_MEASURE", "").strip("0")
    if options.measure > 0 or options.measure == 0 and by_environment:
        return True
    return options.slot_measure == 1 or options.slot_measure == 0 and os.environ.get("SINTER_SLOT_MEASURE", "") not in ("", "0")


def _set_packs(options: Any, packs: Optional[Sequence[PathLike]]) -> None:
    if packs is None:
        return
    if isinstance(packs, (str, bytes)):
        raise TypeError("packs is one string, not a sequence of paths")
    paths = [encode(path, f"packs[{i}]") for i, path in enumerate(packs)]
    options.packs = (ctypes.c_char_p * max(len(paths), 1))(*paths)
    options.pack_count = len(paths)


def _current_device() -> int:
    torch = torch_module()
    if torch is not None and getattr(torch, "cuda", None) is not None and torch.cuda.is_initialized():
        return int(torch.cuda.current_device())
    return 0


@atexit.register
def _end() -> None:
    """Stops the library's threads before the interpreter ends, and writes pending records: contexts that a module holds are not
    closed otherwise."""
    for pending in list(under_way):
        if pending._made == _handle._generation:
            pending.close()
    for context in list(_live):
        if context._pointer is not None:
            context._flush_quietly()
    if is_open():
        _callbacks.end_calls()
