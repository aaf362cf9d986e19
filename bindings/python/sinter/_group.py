"""Groups: the GPUs of one host over which a chain is split."""

from __future__ import annotations

import ctypes
import importlib
import threading
import warnings
from typing import Any, Callable, List, Optional, Sequence

from . import _abi, _callbacks
from ._argument import instance, integer, number, sequence
from ._context import Context
from ._error import Error, Status, invalid
from ._handle import Handle
from ._library import call, library

#: An all-gather: takes this rank's bytes, returns those of all ranks in the order of ranks.
Gather = Callable[[bytes], Sequence[bytes]]

_WHY_BYTES = 512
_SHORTEST_TIMEOUT, _LONGEST_TIMEOUT = 0.001, (2**32 - 1) / 1000


class Group(Handle):
    """This rank's part in a group. Thread-safe; serves one stream at a time.

    Close it: other ranks write this one's memory, and freeing it while they live is undefined. A group that Python collects unclosed warns
    (ResourceWarning), ends on all ranks, and keeps its memory until the process ends. Groups of ``local`` need no ``close``.

    With ``torch.distributed`` as the bootstrap::

        context = sinter.Context(device=torch.cuda.current_device())
        chain = "row_parallel m=M n=8192 k=4096 ranks=2"          # each rank has its own a and w1
        with sinter.Group.from_torch(context) as group:           # closed at the end, on all ranks at once
            bound = context.prepare(chain, m=64).bind(a, w1, r, gamma, group=group)
            h, x = bound()
            torch.cuda.synchronize()

    Args:
        context: this rank's GPU.
        rank, size: this rank's number, and 2 to 8 ranks.
        gather: called on all ranks at once, when the group is made, when a plan is bound for the first time, and at
            ``close``. It must return or raise if a rank does not take part; the call reports its exception.
        slot_bytes: bytes of the largest message of a kernel; 0: the library's choice.
        timeout: seconds that a kernel waits for another rank, 0.001 to 4294967.295; None: until ``abort``.
        peers: addresses of the caller's symmetric memory, one a rank; by default the library allocates.
        peer_bytes: bytes at each of these addresses.
        descriptors: share the library's memory by POSIX file descriptors instead of cuIpc handles: for containers
            without a common IPC namespace that have one network namespace.

    Raises:
        Error: FAILED_PRECONDITION naming the rank that differs; the error of the rank that failed.
    """

    __slots__ = ("rank", "size", "_closed", "_exchange")
    rank: int
    size: int
    _closed: bool
    _exchange: "_Exchange"
    _release_name = "sinter_group_release"

    def __init__(
        self,
        context: Context,
        rank: int,
        size: int,
        gather: Gather,
        *,
        slot_bytes: int = 0,
        timeout: Optional[float] = 10.0,
        peers: Sequence[int] = (),
        peer_bytes: int = 0,
        descriptors: bool = False,
    ) -> None:
        context = instance(context, Context, "context")
        options = _options(slot_bytes, timeout)
        options.rank = integer(rank, "rank", 0, 7)
        options.size = integer(size, "size", 0, 8)
        addresses = [integer(address, f"peers[{i}]", 0, 2**64 - 1) for i, address in enumerate(sequence(peers, "peers"))]
        if addresses and len(addresses) != size:
            raise invalid(f"peers are {len(addresses)}, must be {size}, one a rank")
        if addresses:
            options.peers = (ctypes.c_uint64 * size)(*addresses)
            options.bytes = integer(peer_bytes, "peer_bytes", 0, 2**64 - 1)
        if descriptors:
            options.flags |= _abi.GROUP_DESCRIPTORS
        exchange = _Exchange(gather, size)
        options.exchange = exchange_function
        options.user_data = exchange.key
        pointer = ctypes.c_void_p()
        try:
            with context._in_call() as handle, exchange:
                call("sinter_group_create", handle, ctypes.byref(options), ctypes.byref(pointer))
        except BaseException:
            _callbacks.forget(exchange.key)
            raise
        self.rank, self.size, self._closed, self._exchange = int(rank), int(size), False, exchange
        super().__init__(pointer, drives=True)

    @classmethod
    def from_torch(cls, context: Context, process_group: Any = None, **options: Any) -> "Group":
        """Over a process group of ``torch.distributed``, the default one unless given."""
        dist = importlib.import_module("torch.distributed")
        rank, size = dist.get_rank(process_group), dist.get_world_size(process_group)

        def gather(mine: bytes) -> List[bytes]:
            parts: List[Any] = [None] * size
            dist.all_gather_object(parts, mine, group=process_group)
            return parts

        return cls(context, rank, size, gather, **options)

    @classmethod
    def local(
        cls, contexts: Sequence[Context], *, slot_bytes: int = 0, timeout: Optional[float] = 10.0
    ) -> "List[Group]":
        """Groups of GPUs of this process; rank i has the GPU of ``contexts[i]``. Bind all plans before the first launch."""
        given = [instance(context, Context, f"contexts[{i}]") for i, context in enumerate(sequence(contexts, "contexts"))]
        options = _options(slot_bytes, timeout)
        handles = (ctypes.c_void_p * len(given))(*[context._checked() for context in given])
        made = (ctypes.c_void_p * len(given))()
        call("sinter_group_create_local", handles, len(given), ctypes.byref(options), made)
        groups = []
        for rank, pointer in enumerate(made):
            group = cls.__new__(cls)
            group.rank, group.size, group._closed, group._exchange = rank, len(given), False, _Exchange(None, len(given))
            Handle.__init__(group, ctypes.c_void_p(pointer), drives=True)
            groups.append(group)
        return groups

    @property
    def error(self) -> Optional[Error]:
        """None while the group lives, else why it ended: DEADLINE_EXCEEDED (a rank was missed), FAILED_PRECONDITION
        (ranks made different calls) or ABORTED; ``missed`` names the rank. Never waits: ask after a synchronisation."""
        try:
            call("sinter_group_get_status", self._get(), None)
        except Error as error:
            return error
        return None

    @property
    def missed(self) -> Optional[int]:
        """The rank because of which the group ended; None while it lives."""
        rank, error = ctypes.c_int32(-1), ctypes.c_void_p()
        library().sinter_group_get_status(self._get(), ctypes.byref(rank), ctypes.byref(error))
        library().sinter_error_release(error)
        return None if rank.value < 0 else rank.value

    def abort(self) -> None:
        """Ends the group on all ranks: waits of kernels return soon, later launches are refused."""
        call("sinter_group_abort", self._get())

    def close(self) -> None:
        """Collective, once every rank's launches are synchronised: frees the memory of ranks that are processes."""
        with self._exchange:
            call("sinter_group_close", self._get())
        self._closed = True

    def _agree(self, why: str) -> None:
        """Collective: checks that all ranks can go on. `why`: the reason why this rank cannot; "": it can. Ranks of one process do not wait.

        Raises:
            Error: FAILED_PRECONDITION naming the first rank that cannot.
        """
        own = why.encode()[:_WHY_BYTES].ljust(_WHY_BYTES, b"\0")
        gather = self._exchange.gather
        for rank, part in enumerate([own] if gather is None else gather(own)):
            told = part.rstrip(b"\0").decode(errors="replace")
            if told:
                raise Error(Status.FAILED_PRECONDITION, f"rank {self.rank if gather is None else rank}: {told}")

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        """Closes the group. If the block raises, ends the group on all ranks, and waits for none."""
        if kind is None:
            self.close()
        else:
            self.abort()

    def _give_back(self, pointer: ctypes.c_void_p) -> None:
        _callbacks.forget(self._exchange.key)
        if self._closed or not self._exchange.key or self._is_parents():
            super()._give_back(pointer)
            return
        error = ctypes.c_void_p()
        library().sinter_group_abort(pointer, ctypes.byref(error))
        library().sinter_error_release(error)
        warnings.warn(f"rank {self.rank} of a group of {self.size} was not closed: the group has ended", ResourceWarning, stacklevel=3)

    def _told(self) -> str:
        return f"rank {self.rank} of {self.size}"


def _options(slot_bytes: int, timeout: Optional[float]) -> _abi.GroupOptions:
    options = _abi.GroupOptions()
    options.struct_size = ctypes.sizeof(options)
    options.slot_bytes = integer(slot_bytes, "slot_bytes", 0, 2**64 - 1)
    if timeout is None:
        options.flags = _abi.GROUP_NO_TIMEOUT
    else:
        seconds = number(timeout, "timeout")
        if not _SHORTEST_TIMEOUT <= seconds <= _LONGEST_TIMEOUT:
            raise invalid(f"timeout is {timeout}, not {_SHORTEST_TIMEOUT} to {_LONGEST_TIMEOUT} seconds; None waits until abort")
        options.timeout_ms = round(seconds * 1000)
    return options


class _Exchange:
    """The caller's gather, by its key. A ``with`` around a call of the library raises what the gather raised, in the thread of that call."""

    def __init__(self, gather: Optional[Gather], size: int) -> None:
        self.gather, self.size = gather, size
        self._of_thread = threading.local()
        self.key = 0 if gather is None else _callbacks.register(self._run)

    def _run(self, send: int, count: int, recv: int) -> int:
        """Runs the gather and returns the status for C."""
        try:
            assert self.gather is not None
            parts = self.gather(ctypes.string_at(send, count))
            if len(parts) != self.size or any(len(part) != count for part in parts):
                raise invalid(f"gather returned {[len(part) for part in parts]} bytes, must be {self.size} times {count}")
            ctypes.memmove(recv, b"".join(parts), count * self.size)
        except BaseException as error:
            self._of_thread.raised = error
            return int(Status.UNKNOWN)
        return 0

    def __enter__(self) -> "_Exchange":
        self._of_thread.raised = None
        return self

    def __exit__(self, *_: Any) -> None:
        raised, self._of_thread.raised = self._of_thread.raised, None
        if raised is not None:
            raise raised


def _exchange(key: Optional[int], send: int, count: int, recv: int) -> int:
    exchange = _callbacks.target_of(key)
    if exchange is None:
        return int(Status.CANCELLED)
    return int(exchange(send, count, recv))


exchange_function = _abi.Exchange(_exchange)
