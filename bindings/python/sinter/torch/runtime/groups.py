"""Groups of GPUs by name, because a compiled graph can hold a name, and the plans that all ranks of a group have."""

from __future__ import annotations

import ctypes
import importlib
import itertools
import os
import signal
import socket
import threading
import time
import weakref
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch

from ..._binding import Bound
from ..._error import Error, Status
from ..._group import Group
from ..._plan import Plan
from .store import logger, store

#: The all-reduce of a tensor over a group by a server's own kernels.
AllReduce = Callable[[torch.Tensor], torch.Tensor]


class Split:
    """A group that operators find by its name. Its ranks make the same calls in the same order.

    Attributes:
        all_reduce: sums over the ranks without a plan; None: only plans can sum.
    """

    def __init__(self, name: str, group: Group, all_reduce: Optional[AllReduce] = None) -> None:
        self.name, self.group, self.all_reduce = name, group, all_reduce
        self._met: "weakref.WeakSet[Plan]" = weakref.WeakSet()

    def has_met(self, plan: Plan) -> bool:
        """Whether every rank has this plan."""
        return plan in self._met

    def meet(self, find: Callable[[], Sequence[Plan]], bind: Callable[[Plan], object]) -> List[Plan]:
        """The plans that `find` returns, once every rank has the same. Collective, unless all plans have met before.

        A failure on one rank fails on all: else some ranks would continue without plans while the others wait for them.

        Args:
            bind: binds a plan to the group, with buffers of any number of rows.

        Raises:
            Error: FAILED_PRECONDITION naming a rank whose `find` or `bind` failed or whose plan is another; STREAM_CAPTURING, on all
                ranks alike. On the rank that failed, what `find` or `bind` raised.
        """
        plans: List[Plan] = []
        failure: Optional[Exception] = None
        try:
            plans = list(find())
        except Exception as error:  # out of memory is included
            failure = error
        missing = [plan for plan in plans if plan not in self._met]
        if failure is None and not missing:
            return plans
        if torch.cuda.is_current_stream_capturing():
            raise failure or Error(
                Status.STREAM_CAPTURING,
                f"ranks of {self.name!r} have not compared their plans yet, and nothing is compared while a stream captures: "
                "run it once before the capture",
            )
        self._agree(failure)
        for plan in missing:
            try:
                with torch.no_grad():
                    bind(plan)
            except Exception as error:
                failure = failure or error
        self._agree(failure)
        self._met.update(missing)
        return plans

    def _agree(self, failure: Optional[Exception]) -> None:
        """Raises this rank's failure, or a failure of another rank."""
        why = "" if failure is None else getattr(failure, "message", "") or repr(failure)
        try:
            self.group._agree(why)
        except Error as error:
            raise failure or error

    def launch(self, plan: Plan, addresses: "ctypes.Array[Any]", workspace: int, stream: int, rows: int, pdl: bool) -> None:
        """Enqueues a plan that has met. The rows are the same on all ranks."""
        Bound(plan, addresses, workspace, self.group).launch(stream, rows, pdl)


_by_name: "weakref.WeakValueDictionary[str, Split]" = weakref.WeakValueDictionary()
_numbers = itertools.count()

#: Groups of servers. They live as long as the process, which ends without asking the other ranks.
_kept: List[Split] = []


def split(group: Group) -> Split:
    """The group's split, under a unique name, as long as somebody holds it. Ranks that make their groups in one order get equal names."""
    for found in list(_by_name.values()):
        if found.group is group:
            return found
    made = Split(f"group {next(_numbers)}", group)
    _by_name[made.name] = made
    return made


def split_of(name: str) -> Split:
    """The group that a graph names.

    Raises:
        Error: NOT_FOUND if this process has no such group.
    """
    found = _by_name.get(name)
    if found is None:
        raise Error(Status.NOT_FOUND, f"no group is called {name!r} in this process: make the layer, with its group, before the graph runs")
    return found


def join(name: str, process_group: Any, device: int, all_reduce: AllReduce, reason: str = "") -> str:
    """Makes a group of the GPUs that a server splits its layers over. Returns "", or on all ranks the reason why there is no group. Collective.

    It waits for other ranks without a limit: loading and compiling a model differ by minutes between ranks, and a server ends its
    processes when one of them has died.

    Args:
        name: the server's name for the group, the same on all ranks.
        process_group: of ``torch.distributed``, for exchanges on the host.
        device: the GPU of this rank.
        all_reduce: the server's all-reduce over the same ranks.
        reason: why this rank cannot join; all ranks then get it.
    """
    if any(found.name == name for found in _kept):
        return ""
    dist = importlib.import_module("torch.distributed")
    rank, size = dist.get_rank(process_group), dist.get_world_size(process_group)
    if not 2 <= size <= 8:
        return f"they are split over {size} GPUs, and a group has 2 to 8"
    context, failed = None, reason
    try:
        context = store.context(device)
    except Exception as error:
        failed = failed or str(error) or repr(error)
    logger.info("sinter: rank %d of %d waits for the others to join; SINTER_PLUGINS and the plugin must be alike on all ranks", rank, size)
    told: List[Any] = [None] * size
    dist.all_gather_object(told, (failed, *_place()), group=process_group)
    for other, (why, host, boot, namespace) in enumerate(told):
        if why:
            return f"rank {other}: {why}"
        if boot != told[0][2]:
            return f"ranks 0 and {other} are on two hosts, {told[0][1]} and {host}, and a group is of one"
        if namespace != told[0][3]:
            return f"ranks 0 and {other} share no memory: their containers have IPC namespaces of their own (--ipc=host)"
    assert context is not None
    try:
        group = Group.from_torch(context, process_group, timeout=None)
    except Error as error:
        return str(error)
    _by_name[name] = made = Split(name, group, all_reduce)
    _kept.append(made)
    threading.Thread(target=_watch, args=(group,), name="sinter group", daemon=True).start()
    logger.info("sinter: rank %d of %d sums over GPUs in its plans", rank, size)
    return ""


def _watch(group: Group, seconds: float = 1.0) -> None:
    """Ends a server's process once its group has ended, for example because ranks computed different numbers of rows: its graphs would
    otherwise continue silently, and compute nothing."""
    while group.error is None:
        time.sleep(seconds)
    logger.critical("sinter: the group of this model's GPUs has ended, and results since then are wrong; start the server again: %s", group.error)
    os.kill(os.getpid(), signal.SIGTERM)


def _place() -> Tuple[str, str, int]:
    """Where this process runs: the host's name, the start of its kernel and the IPC namespace. They distinguish ranks that share no memory."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read()
        return socket.gethostname(), boot, os.stat("/proc/self/ns/ipc").st_ino
    except OSError:
        return socket.gethostname(), socket.gethostname(), 0
