"""Whether the library plans a part's chain, and the plan."""

from __future__ import annotations

import threading
import time
from typing import Any, List, Optional

from .._context import Context
from .._error import Error
from .._plan import Plan
from ._convert import Converted
from ._store import store


class Asked:
    """A prepare whose search has ended: refused, or being built, or there.

    Args:
        only_asks: the build is given up once the search has ended.
        until: of ``time.monotonic``, when the wait for the search ends.
    """

    def __init__(self, context: Context, made: Converted, m: int, only_asks: bool, until: float) -> None:
        self.refused: Optional[str] = None
        self._pending: Any = None
        searched = threading.Event()

        def progress(stage: str, fraction: float) -> None:
            if stage not in ("look up", "search"):
                searched.set()

        try:
            self._pending = context.prepare_async(made.chain, m, progress=progress)
            self._pending.add_done_callback(searched.set)
            searched.wait(max(0.0, until - time.monotonic()))
            if self._pending.done():
                self._pending.result(0)
        except Error as error:
            self.refused = str(error)
            return
        if only_asks:
            self._pending.close()
            self._pending = None
        else:
            _building[:] = [pending for pending in _building if not pending.done()] + [self._pending]

    def plan(self, wait: bool) -> Optional[Plan]:
        """The plan where it is there, or once it is; None while it is being built, or with ``refused``."""
        if self._pending is None or not (wait or self._pending.done()):
            return None
        try:
            made: Plan = self._pending.result()
            return made
        except Error as error:
            self.refused = str(error)
            return None


#: Builds that go on behind their passes, whose slots will find them.
_building: List[Any] = []
store.when_dropped(_building.clear)
