"""Warnings about faults that a compiled model survives."""

from __future__ import annotations

import logging
from typing import Set

logger = logging.getLogger("sinter")

_MOST_TOLD = 64  # the most different faults: a message may contain text that differs between calls

_told: Set[str] = set()


def warn_once(message: str) -> None:
    """Logs a warning once in the process for each fault."""
    tell_once(message, _told)


def tell_once(message: str, told: Set[str]) -> None:
    """Logs a warning and adds it to `told`. Messages in `told`, and all after the first 64, are logged at level debug."""
    known = message in told or len(told) >= _MOST_TOLD
    if not known:
        told.add(message)
    logger.log(logging.DEBUG if known else logging.WARNING, "sinter: %s", message)
