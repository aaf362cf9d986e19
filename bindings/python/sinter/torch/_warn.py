"""What whoever runs a compiled model is told of faults that it survives."""

from __future__ import annotations

import logging

logger = logging.getLogger("sinter")

_warned = False


def warn_once(message: str) -> None:
    """A line for whoever runs the model; the next faults are told at level debug."""
    global _warned
    logger.log(logging.DEBUG if _warned else logging.WARNING, "sinter: %s", message)
    _warned = True
