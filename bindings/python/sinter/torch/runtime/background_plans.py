"""Plans for numbers of rows that are not prepared at once: they are built in the background and used once they are there."""

from __future__ import annotations

import bisect
import functools
import logging
import threading
import weakref
from typing import Callable, Dict, Optional, Sequence, Set

from ..._error import Error
from ..._plan import Plan
from ..._slot import STAND_IN, Slot
from .single_flight import Counters
from .upgrade import Upgrade


class Later:
    """The plans of one chain for numbers of rows that a server's own kernels compute until the plans are there. Thread-safe.

    Args:
        make_slot: makes the slot for a number of rows. Only the constructor calls it; not while a stream captures.
        sizes: the numbers of rows, ascending; a plan also serves fewer, down to the size before.
        log: the logger that reports once that all plans are there.
    """

    def __init__(self, make_slot: Callable[[int], Slot], sizes: Sequence[int], counters: Counters, log: str) -> None:
        self.sizes = tuple(sizes)
        self._counters, self._log = counters, logging.getLogger(log)
        self._plans: Dict[int, Plan] = {}
        self._slots: Dict[int, Slot] = {}
        self._upgrades: Dict[int, Upgrade] = {}
        self._building: Set[int] = set(self.sizes)
        self._lock = threading.Lock()
        for size in (*self.sizes[-1:], *self.sizes[:-1]):  # full batches first
            try:
                self._slots[size] = make_slot(size)
                self._slots[size].build.add_done_callback(functools.partial(_end, weakref.ref(self), size))
            except Error as error:  # a miss under must-hit
                self._end(size, error)

    def find(self, rows: int) -> Optional[Plan]:
        """The plan for `rows`, if it is there by now."""
        at = bisect.bisect_left(self.sizes, rows)
        if at == len(self.sizes):
            return None
        size = self.sizes[at]
        upgrade = self._upgrades.get(size)
        newer = None if upgrade is None else upgrade.newer()
        if newer is not None:
            self._plans[size] = newer
            self._upgrades.pop(size, None)
        return self._plans.get(size)

    def is_final(self, rows: int) -> bool:
        """Whether no other plan for `rows` is being measured."""
        return self.sizes[bisect.bisect_left(self.sizes, rows)] not in self._upgrades

    def largest(self) -> int:
        """The largest size with a plan, or with one that is being built."""
        return max((*self._plans, *self._building), default=0)

    def take(self, size: int) -> None:
        """Keeps the plan of a build that has ended. It does not keep a stand-in, which is slower than a server's own kernels."""
        slot = self._slots[size]
        try:
            plan = slot._plan(shares_workspace=False) if slot.generation > STAND_IN else None
            if plan is None:
                slot.build.result(0)  # raises the reason why there is no plan
                return
        except Error as error:
            self._end(size, error)
            return
        if slot._goes_on:
            self._upgrades[size] = Upgrade(slot, shares_workspace=False)
        self._plans[size] = plan
        del self._slots[size]
        self._end(size, None)

    def _end(self, size: int, error: Optional[Error]) -> None:
        self._counters.add(prepared=error is None, failed=error is not None)
        if error is not None:
            self._log.info("sinter: the server's own operators compute up to %d rows: %s", size, error)
        with self._lock:
            self._building.discard(size)
            if self._building or not self._plans:
                return
        plans = self._plans.values()
        self._log.info(
            "sinter: %d plans for up to %d rows are there; the code of all plans takes %.1f MB of the GPU's memory, and a "
            "launch of these up to %.0f MB of PyTorch's while it runs",
            len(plans),
            max(self._plans),
            max(plan.context.stats().module_bytes for plan in plans) / 1e6,
            max(plan.workspace_size for plan in plans) / 1e6,
        )


def _end(later: "weakref.ref[Later]", size: int) -> None:
    """A build has ended; on a thread of the library, or at once."""
    found = later()
    if found is not None:
        found.take(size)
