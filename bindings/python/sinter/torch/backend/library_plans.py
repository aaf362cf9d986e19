"""Whether the library plans a part's chain, and the plan."""

from __future__ import annotations

import math
import time
from typing import Any, Callable, List, Optional

from ..._context import Context
from ..._error import Error, Status
from ..._plan import Plan
from ..._search import Search
from ..convert.converter import Converted
from ..runtime.options import candidates_in
from ..runtime.run_chain import in_a_graph_us
from ..runtime.store import store
from ..runtime.warn import warn_once


#: Errors by which measuring fails though prediction still has a plan: no GPU, inconclusive times, no memory, must-hit.
_NOT_MEASURED = (Status.UNAVAILABLE, Status.FAILED_PRECONDITION, Status.RESOURCE_EXHAUSTED, Status.CACHE_MISS)


class Asked:
    """A chain whose search has ended: it was refused or is not worth a build, or its plan is being built or there.

    Args:
        only_asks: the chain is only searched, nothing is built.
        until: the time of ``time.monotonic`` when the wait for the search ends.
        most_us: the plan is built only if its expected time is at most this.
        candidates: how many are measured before one is chosen; 0: as the context says. If nothing can be measured, prediction chooses.

    Attributes:
        error: why there is no plan.
        expected_us: the plan's expected time; 0 if the search is not done.
        lost_us: the expected time of a plan that is not worth its build; 0 for any other.
    """

    def __init__(
        self, context: Context, made: Converted, m: int, only_asks: bool, until: float, most_us: float = math.inf, candidates: int = 0
    ) -> None:
        self.error: Optional[Error] = None
        self.expected_us = self.lost_us = 0.0
        self._pending: Any = None
        self._predicted: Optional[Callable[[], Any]] = None  # a prepare by prediction, if measuring fails
        try:
            found = _searched(context, made, m, until)
            if found is not None:
                self.expected_us = in_a_graph_us(found.predicted_us, found.kernel_count, found.workspace_size)
            if self.expected_us > most_us:
                self.lost_us = self.expected_us
            if only_asks or self.lost_us:
                return
            candidates = candidates_in(context, candidates)
            if candidates:
                self._predicted = lambda: context.prepare_async(made.chain, m, measure=-1)
                self._pending = context.prepare_async(made.chain, m, measure=candidates)
            else:
                self._pending = context.prepare_async(made.chain, m)  # it finds the result of the search
        except Error as error:
            self.error = error
            return
        _building[:] = [pending for pending in _building if not pending.done()] + [self._pending]

    @property
    def refused(self) -> Optional[str]:
        """Why there is no plan, as text."""
        return None if self.error is None else str(self.error)

    def plan(self, wait: bool) -> Optional[Plan]:
        """The plan, if it is there; with `wait`, once it is. None while it is being built, if nothing builds it, or with ``error``."""
        if self._pending is None or not (wait or self._pending.done()):
            return None
        try:
            made: Plan = self._result()
            return made
        except Error as error:
            self.error = error
            return None

    def _result(self) -> Any:
        try:
            return self._pending.result()
        except Error as error:
            if self._predicted is None or error.code not in _NOT_MEASURED:
                raise
            warn_once(f"prediction chooses plans that cannot be measured: {error}")
            self._pending, self._predicted = self._predicted(), None
            return self._pending.result()


def _searched(context: Context, made: Converted, m: int, until: float) -> Optional[Search]:
    """The plan that the library would choose; None if there is no time for the search."""
    left = until - time.monotonic()
    if left <= 0:
        return None
    try:
        return context.search(made.chain, m, timeout=left)
    except Error as error:
        if error.code == Status.DEADLINE_EXCEEDED:
            return None
        raise


#: Builds that go on after their passes have returned; the operators' slots will find the plans.
_building: List[Any] = []
store.when_dropped(_building.clear)
