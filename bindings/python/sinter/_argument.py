"""Arguments of every kind, checked: integers, numbers, flags, words, times and sequences."""

from __future__ import annotations

import numbers
import operator
from typing import Any, Dict, Iterable, List, Optional, Type, TypeVar

from ._error import invalid

Item = TypeVar("Item")

_I64_MAX = 2**63 - 1
_MAX_US = 2**62


def integer(value: Any, name: str, minimum: int = -_I64_MAX - 1, maximum: int = _I64_MAX) -> int:
    """`value` as an int within bounds.

    Raises:
        TypeError: no integer. Error: INVALID_ARGUMENT naming `name`, the value and the bound.
    """
    if isinstance(value, bool):
        raise TypeError(f"{name} is {value}, which is no integer")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}, which is no integer") from None
    if not minimum <= number <= maximum:
        raise invalid(f"{name} is {number}, not {minimum} to {maximum}", name, number, f"{minimum} to {maximum}")
    return number


def is_number(value: Any) -> bool:
    """Whether `value` is an int or a float, of Python or numpy; True and False are neither."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def number(value: Any, name: str) -> float:
    """`value` as a float.

    Raises:
        TypeError: no int or float, of Python or numpy. Error: INVALID_ARGUMENT for an int that no float holds.
    """
    if not is_number(value):
        raise TypeError(f"{name} is {value!r}, which is no number")
    try:
        return float(value)
    except OverflowError:
        raise invalid(f"{name} is larger than any float") from None


def flag(value: Any, name: str) -> bool:
    """`value`, True or False of Python or numpy.

    Raises:
        TypeError: neither, whatever its truth.
    """
    if isinstance(value, bool):
        return value
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(f"{name} is {value!r}, neither True nor False")


def instance(value: object, kind: Type[Item], name: str) -> Item:
    """`value`, of the package's class `kind`.

    Raises:
        TypeError: naming `name`, what it is and the class.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} is a {type(value).__name__}, not a sinter.{kind.__name__}")
    return value


def sequence(values: Iterable[Item], name: str) -> List[Item]:
    """`values` as a list.

    Raises:
        TypeError: no sequence, but for a string, whose items are refused one by one.
    """
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"{name} is {values!r}, not a sequence") from None


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
