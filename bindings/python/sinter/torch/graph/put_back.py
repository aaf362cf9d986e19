"""Puts a graph back as it was: all of it, or the rewritten nodes that no operator reads."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence, Set

import torch

from ..convert.aten import TABLE
from ..convert.converter import target_of
from .nodes import add_again, erase_unread

WAS = "sinter_was"  # key in a node's meta: the node of the copied graph that has the same value

#: Operators that this pass rewrites but that have no row in the table of operators.
_WRITTEN = ("aten.split.Tensor", "aten.split_with_sizes.default", "aten.unbind.int", "aten.index.Tensor")


def copy_of(graph: torch.fx.Graph) -> torch.fx.Graph:
    """A copy of the graph, for `put_back`. Each node's meta records its node in the copy; code that rewrites a node passes the record on."""
    kept = torch.fx.Graph()
    copies: Dict[Any, Any] = {}
    made = kept.output(kept.graph_copy(graph, copies))
    made.meta.update(next(node.meta for node in reversed(graph.nodes) if node.op == "output"))
    for node, copy in copies.items():
        node.meta[WAS] = copy
    return kept


def put_back(graph: torch.fx.Graph, kept: torch.fx.Graph) -> None:
    """Restores `graph`, which still has the inputs of `kept`, to its state when `kept` was copied."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    meta = next(node.meta for node in reversed(kept.nodes) if node.op == "output")
    for node in reversed(list(graph.nodes)):
        if node.op != "placeholder":
            graph.erase_node(node)
    given = (node for node in kept.nodes if node.op == "placeholder")
    graph.output(graph.graph_copy(kept, dict(zip(given, inputs)))).meta.update(meta)


def rewritten(graph: torch.fx.Graph, rewrite: Callable[[], Any]) -> Optional[Exception]:
    """Runs `rewrite`, which changes `graph`. If it raises, `graph` is as before, and the error is returned."""
    kept = copy_of(graph)
    try:
        rewrite()
        return None
    except Exception as error:  # whatever it is, the model runs
        put_back(graph, kept)
        return error
    finally:
        forget_what_was(graph)


def forget_what_was(graph: torch.fx.Graph) -> None:
    """Drops the records of the copied graph's nodes, which only this pass uses."""
    for node in graph.nodes:
        node.meta.pop(WAS, None)


def put_rest_back(graph: torch.fx.Graph, taken: Sequence[Any], replaced: Dict[Any, Any]) -> None:
    """Restores nodes that no operator reads to their form in the copied graph: Inductor runs some rewritten nodes slower. The caller sorts
    the graph.

    Args:
        taken: nodes that operators replaced.
        replaced: maps each of them that others read to its replacement.
    """
    inside = {node.meta[WAS] for node in taken if WAS in node.meta}
    there = {node.meta[WAS]: node for node in graph.nodes if WAS in node.meta and node.target == node.meta[WAS].target}
    there.update((node.meta[WAS], now) for node, now in replaced.items() if WAS in node.meta)
    for node in list(graph.nodes):
        was = node.meta.get(WAS)
        if was is None or was in there or all(map(_is_operator, node.users)):
            continue
        before = set(graph.nodes)
        with graph.inserting_before(node):
            again = _as_it_was(graph, was, there, inside)
        if again is None or again.meta["val"].stride() != node.meta["val"].stride():
            for made in reversed([each for each in graph.nodes if each not in before]):
                graph.erase_node(made)
            for known in [was for was, each in there.items() if each._erased]:
                del there[known]
            continue
        node.replace_all_uses_with(again, lambda user: not _is_operator(user))
        erase_unread(graph, node, lambda each: TABLE.get(target_of(each)) is not None)


def _as_it_was(graph: torch.fx.Graph, was: Any, there: Dict[Any, Any], inside: Set[Any]) -> Any:
    """A node with the value of `was`: one that is `there`, or one that is made at the graph's insertion point. None if that needs a value
    that only operators compute."""
    if was in there:
        return there[was]
    row = TABLE.get(target_of(was))
    if was in inside or was.op != "call_function" or row is None and target_of(was) not in _WRITTEN or row is not None and row.product:
        return None
    operands = {i: _as_it_was(graph, i, there, inside) for i in was.all_input_nodes}
    if None in operands.values():
        return None
    made = add_again(graph, was, operands.__getitem__)
    made.meta.update(was.meta, val=made.meta["val"])
    there[was] = made
    return made


def _is_operator(node: Any) -> bool:
    return node.op == "call_function" and str(node.target).startswith("sinter.")
