"""What the plugin does inside of vLLM's functions must not end a server: if it fails, vLLM computes, and one warning says why."""

from __future__ import annotations

import logging
from typing import Any, Callable


def guarded(servers: Any, what: str, f: Callable[[], Any], failed: Callable[[], object] = lambda: None) -> Any:
    """What `f` returns; None if it raises. Then `failed` is called, and a warning says that `what` stays vLLM's."""
    try:
        return f()
    except Exception as error:  # whatever it is, the engine runs
        failed()
        servers.stay_away(what, f"{type(error).__name__}: {error}")
        return None


class Switch:
    """Calls of functions that are off for good once one of them has raised."""

    def __init__(self, servers: Any, what: str) -> None:
        self._servers, self._what = servers, what
        self._off = False

    def __call__(self, f: Callable[[], Any]) -> Any:
        """What `f` returns; None if it raises, or if an earlier function did."""
        return None if self._off else guarded(self._servers, self._what, f, self._switch_off)

    def _switch_off(self) -> None:
        self._off = True


def never_raises(f: Callable[[], Any]) -> Any:
    """What `f` returns, None if it raises: for functions that run where the package itself may be what fails, such as a library that is missing."""
    try:
        return f()
    except Exception as error:
        logging.getLogger("sinter").warning("sinter: vLLM keeps its own path: %s: %s", type(error).__name__, error)
        return None
