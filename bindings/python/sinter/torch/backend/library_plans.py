"""Whether the library plans a part's chain, and the plan."""

from __future__ import annotations

import math
import re
import threading
import time
from typing import Any, List, Optional

from ..._context import Context
from ..._error import Error
from ..._plan import Plan
from ..convert.converter import Converted
from ..runtime.run_chain import expected_us, in_a_graph_us
from ..runtime.store import store

#: The stage of a prepare that tells what was chosen, before it is built.
_PLANNED = re.compile(r"planned: (\d+) kernels?, (\S+) us predicted, (\d+) bytes of workspace")


class Asked:
    """A prepare whose search has ended: refused, not worth a build, being built, or there.

    Args:
        only_asks: the build is given up once the search has ended.
        until: of ``time.monotonic``, when the wait for the search ends.
        most_us: what the plan may be expected to take, to be built.

    Attributes:
        error: why there is no plan.
        expected_us: what the plan is expected to take; 0 where the search is not done.
        lost_us: the same, of a plan that was given up before its build; 0 of any other.
    """

    def __init__(self, context: Context, made: Converted, m: int, only_asks: bool, until: float, most_us: float = math.inf) -> None:
        self.error: Optional[Error] = None
        self.expected_us = self.lost_us = 0.0
        self._pending: Any = None
        searched = threading.Event()

        def progress(stage: str, fraction: float) -> None:
            found = _PLANNED.match(stage)
            if found is not None:
                self.expected_us = in_a_graph_us(float(found[2]), int(found[1]), int(found[3]))
            if stage not in ("look up", "search", "ready"):  # behind the last it is done
                searched.set()

        try:
            self._pending = context.prepare_async(made.chain, m, progress=progress)
            self._pending.add_done_callback(searched.set)
            searched.wait(max(0.0, until - time.monotonic()))
            if self._pending.done():
                self.expected_us = self.expected_us or expected_us(self._pending.result(0))
        except Error as error:
            self.error = error
            return
        if self.expected_us > most_us:
            self.lost_us = self.expected_us
        if only_asks or self.lost_us:
            self._pending.close()
            self._pending = None
        else:
            _building[:] = [pending for pending in _building if not pending.done()] + [self._pending]

    @property
    def refused(self) -> Optional[str]:
        """Why there is no plan, as text."""
        return None if self.error is None else str(self.error)

    def plan(self, wait: bool) -> Optional[Plan]:
        """The plan where it is there, or once it is; None while it is being built, where it was given up, or with ``error``."""
        if self._pending is None or not (wait or self._pending.done()):
            return None
        try:
            made: Plan = self._pending.result()
            return made
        except Error as error:
            self.error = error
            return None


#: Builds that go on behind their passes, whose slots will find them.
_building: List[Any] = []
store.when_dropped(_building.clear)
