"""What whoever runs a compiled model is told of faults that it survives."""

from __future__ import annotations

import logging
from typing import Set

logger = logging.getLogger("sinter")

_MOST_TOLD = 64  # different faults: a message may hold what differs from call to call

_told: Set[str] = set()


def warn_once(message: str) -> None:
    """A line for whoever runs the model, once in the process for each fault."""
    tell_once(message, _told)


def tell_once(message: str, told: Set[str]) -> None:
    """A warning. At level debug a message of `told`, to which it is added, and any after the first 64."""
    known = message in told or len(told) >= _MOST_TOLD
    if not known:
        told.add(message)
    logger.log(logging.DEBUG if known else logging.WARNING, "sinter: %s", message)
