"""Finds the op of a part for which no plan can be made."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

from ..._error import Error, Status
from ..convert.converter import Converted, target_of

#: Errors that a chain without the op that fails does not have.
OF_AN_OP = (Status.COMPILE_FAILED, Status.NO_LEGAL_PLAN, Status.UNIMPLEMENTED, Status.INTERNAL)


def named_node(error: Error, made: Converted) -> Any:
    """The node of the op that an error names. If that node picks one of several values, the node that made them."""
    node = made.nodes[error.op] if error.op is not None and error.op < len(made.nodes) else None
    return node.args[0] if node is not None and target_of(node) == "getitem" else node


def smallest_that_fails(
    nodes: List[Any], tried: Sequence[List[Any]], halves: Callable[[List[Any]], List[List[Any]]], fails: Callable[[List[Any]], bool]
) -> List[Any]:
    """The smallest part that fails: `nodes` fail, and are halved as long as a half fails.

    Args:
        tried: smaller parts of `nodes` that are likely to fail, which are asked first.
    """
    while True:
        smaller = next((part for part in (*tried, *halves(nodes)) if len(part) < len(nodes) and fails(part)), None)
        if smaller is None:
            return nodes
        nodes, tried = smaller, ()
