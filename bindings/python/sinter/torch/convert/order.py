"""Topological order. This file does not depend on torch."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence


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
