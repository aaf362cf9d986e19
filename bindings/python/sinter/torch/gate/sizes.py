"""Sizes of a graph's values as numbers, even if some are symbols."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterable, List, Sequence

from ..convert.arrays import extent
from ..convert.attention import is_attention

#: Maps a symbol, or an expression of symbols, to its value in the call in question.
Hint = Callable[[Any], int]


def plain_hint(expression: Any) -> int:
    """The hint for graphs without symbols."""
    return int(expression)


def hint_at(symbol: Any, rows: int) -> "Hint | None":
    """The hint at which the expression for M is `rows`, or the least possible value above. One symbol of M takes the whole size. All others are 1,
    also symbols outside of M, because only M counts. None if no symbol up to `rows` makes M so large."""

    def at(values: Dict[Any, int]) -> Hint:
        return lambda expression: int(expression.subs({name: values.get(name, 1) for name in expression.free_symbols}))

    found = []
    for name in sorted(symbol.free_symbols, key=str):
        values = dict.fromkeys(symbol.free_symbols, 1)
        low, high = 1, rows
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if at({**values, name: middle})(symbol) >= rows else (middle + 1, high)
        hint = at({**values, name: low})
        if hint(symbol) >= rows:
            found.append(hint)
    return min(found, key=lambda hint: hint(symbol), default=None)


def hint_for(rows: int) -> Hint:
    """The hint at which each symbol is `rows`."""
    return lambda expression: int(expression.subs(dict.fromkeys(expression.free_symbols, rows)))


def hint_of_call(vals: Sequence[Any]) -> Hint:
    """Maps a symbolic size to its value in the call that is being compiled."""
    env = next((size.node.shape_env for val in vals for size in val.shape if not isinstance(size, int)), None)

    def hint(expression: Any) -> int:
        if env is None:
            return int(expression)
        return int(env.optimization_hint(expression) if hasattr(env, "optimization_hint") else env.size_hint(expression))

    return hint


def sizes_of(val: Any, hint: Hint) -> List[int]:
    return hinted(val.shape, hint)


def hinted(sizes: Iterable[Any], hint: Hint) -> List[int]:
    """`sizes` as numbers. Only symbols go through `hint`: a size that torch calls symbolic may be a number by now."""
    return [size if isinstance(size, int) else hint(size) for size in map(extent, sizes)]


def count_of(val: Any, hint: Hint) -> int:
    return math.prod(sizes_of(val, hint))


def bytes_of(node: Any, hint: Hint) -> int:
    val = node.meta.get("val")
    val = val[0] if is_attention(node) else val
    return count_of(val, hint) * val.element_size() if hasattr(val, "element_size") else 0
