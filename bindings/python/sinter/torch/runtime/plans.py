"""The plans of one chain on one device, by rows."""

from __future__ import annotations

import bisect
import threading
from typing import Callable, Dict, Optional, Sequence, Tuple

from ..._error import Error
from ..._plan import Plan
from .background_plans import Later


class Plans:
    """Plans of a chain by the rows that they were prepared for. Thread-safe; lookups take no lock."""

    def __init__(self) -> None:
        #: Plans by the number of rows of earlier calls, so that a lookup is not repeated.
        self.by_rows: Dict[int, Plan] = {}
        #: Numbers of rows whose plans were prepared ahead of calls, ascending; a plan also serves fewer.
        self.sizes: Tuple[int, ...] = ()
        #: Why there are no plans.
        self.refused: Optional[Error] = None
        #: Plans for more rows.
        self.later: Optional[Later] = None
        self._lock = threading.Lock()

    def add(self, sizes: Sequence[int], plans: Sequence[Plan]) -> None:
        """Replaces the plans by ones that serve `sizes` rows, and fewer."""
        with self._lock:
            renewed = {id(self.by_rows[size]): plan for size, plan in zip(sizes, plans) if size in self.by_rows}
            self.by_rows.update({rows: renewed[id(old)] for rows, old in [*self.by_rows.items()] if id(old) in renewed})
            self.by_rows.update(zip(sizes, plans))
            self.sizes = tuple(sorted({*self.sizes, *sizes}))

    def build_later(self, make: Callable[[], Later]) -> None:
        """Calls ``make`` once to start the background plans."""
        with self._lock:
            if self.later is None:
                self.later = make()

    def find(self, rows: int) -> Optional[Plan]:
        """The plan for `rows`, or for the smallest size above, if it is there."""
        found = self.by_rows.get(rows)
        if found is None:
            sizes = self.sizes
            at = bisect.bisect_left(sizes, rows)
            if at < len(sizes):
                found = self.by_rows[rows] = self.by_rows[sizes[at]]
            elif self.later is not None:
                found = self.later.find(rows)
                if found is not None and self.later.is_final(rows):
                    self.by_rows[rows] = found
        return found
