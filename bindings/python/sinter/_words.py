"""Arguments of prepares and contexts, read."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ._argument import integer, is_number
from ._chain import M_MAX, Chain
from ._error import invalid

_MAX_US = 2**62


def rows_of(chain: Chain, m: Optional[int]) -> int:
    """`m`, or the number in the chain's text.

    Raises:
        Error: INVALID_ARGUMENT when there is neither, or m is out of range.
    """
    if m is None:
        m = chain.m
    if m is None:
        if chain.uses_m:
            raise invalid("m is not given, and the chain leaves it open: prepare(chain, m=ROWS)", "m")
        return 0
    return integer(m, "m", 0, M_MAX)


def seconds(timeout: Any) -> float:
    """`timeout`, an int or float of Python or numpy.

    Raises:
        TypeError: neither. Error: INVALID_ARGUMENT for less than 0, or NaN.
    """
    if not is_number(timeout):
        raise TypeError(f"timeout is {timeout!r}, which is no number of seconds")
    if not timeout >= 0:
        raise invalid(f"timeout is {timeout}, not 0 or more seconds", "timeout", timeout, "0 or more seconds")
    return float(min(timeout, _MAX_US / 1e6))


def microseconds(timeout: Optional[float]) -> int:
    """A deadline; 0 means none to the library, so the shortest is 1."""
    return 0 if timeout is None else max(1, int(seconds(timeout) * 1e6))


def named(table: Dict[str, int], value: Any, name: str) -> int:
    """The number of a word of `table`.

    Raises:
        Error: INVALID_ARGUMENT naming the words there are.
    """
    if not isinstance(value, str) or value not in table:
        words = " ".join(table)
        raise invalid(f"{name} is {value!r}; there are {words}", name, repr(value), words)
    return table[value]
