"""Replaces a predicted plan by the plan that measuring chose, once that is there."""

from __future__ import annotations

import time
from typing import Optional

import torch

from ..._error import Error
from ..._plan import Plan
from ..._slot import Slot

_PAUSE_SECONDS = 2.0  # between two looks at a slot


class Upgrade:
    """A slot whose predicted plan was taken, and which measures others. Any thread may ask.

    Args:
        shares_workspace: as of ``Plan``.
    """

    def __init__(self, slot: Slot, shares_workspace: bool) -> None:
        self._slot, self._shares = slot, shares_workspace
        self._taken = slot.generation
        self._not_before = 0.0

    def newer(self) -> Optional[Plan]:
        """The plan that is faster, once it is there. A graph that is being captured keeps the plan that it has."""
        now = time.monotonic()
        if now < self._not_before or torch.cuda.is_current_stream_capturing():
            return None
        self._not_before = now + _PAUSE_SECONDS
        try:
            return self._slot._plan(self._shares) if self._slot.generation > self._taken else None
        except Error:  # the parent's, after a fork
            return None
