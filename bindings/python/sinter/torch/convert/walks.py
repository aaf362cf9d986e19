"""Walks over the nodes of a graph. This file does not depend on torch."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Sequence


def reached(starts: Iterable[Any], further: Callable[[Any], Iterable[Any]]) -> List[Any]:
    """`starts`, and every item that `further` returns for one of these, each once."""
    found = dict.fromkeys(starts)
    waiting = list(found)
    while waiting:
        fresh = dict.fromkeys(item for item in further(waiting.pop()) if item not in found)
        found.update(fresh)
        waiting.extend(fresh)
    return list(found)


def depth_first(ends: Sequence[Any], read_by: Callable[[Any], Sequence[Any]]) -> List[Any]:
    """Every item that `ends` need, each once, after the items that `read_by` returns for it."""
    order: List[Any] = []
    seen = set()
    stack = [(end, False) for end in reversed(ends)]
    while stack:
        item, ready = stack.pop()
        if ready:
            order.append(item)
        elif item not in seen:
            seen.add(item)
            stack.append((item, True))
            stack.extend((operand, False) for operand in reversed(read_by(item)))
    return order
