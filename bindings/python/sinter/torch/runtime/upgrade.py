"""Replaces a predicted plan by the plan that measuring chose, once that is there."""

from __future__ import annotations

import time
from typing import Optional

import torch

from ..._error import Error
from ..._plan import Plan
from ..._slot import Slot

_PAUSE_SECONDS = 2.0  # between two checks of a slot


class Upgrade:
    """A slot whose predicted plan is in use, and which measures other plans. Thread-safe.

    Args:
        shares_workspace: see ``Plan``.
    """

    def __init__(self, slot: Slot, shares_workspace: bool) -> None:
        self._slot, self._shares = slot, shares_workspace
        self._taken = slot.generation
        self._not_before = 0.0

    def newer(self) -> Optional[Plan]:
        """The faster plan, once it is there. While a graph is captured, the plan does not change."""
        now = time.monotonic()
        if now < self._not_before or torch.cuda.is_current_stream_capturing():
            return None
        self._not_before = now + _PAUSE_SECONDS
        try:
            return self._slot._plan(self._shares) if self._slot.generation > self._taken else None
        except Error:  # after a fork: the slot is the parent's
            return None
