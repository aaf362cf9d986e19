"""Keeps results of a graph that are views of one memory views of it, even if a part computes it: a write into one is seen in the others."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

import torch

from .nodes import erase_unread, memory_of
from .put_back import WAS


def views_of_their_own(graph: torch.fx.Graph) -> List[Tuple[Any, Any]]:
    """Gives results that share memory, with each other or between their own elements, views that nothing else reads. No part holds
    them: inside of one they would become memory of their own. Returns pairs: such a view, and the result that it replaces."""
    end = graph.output_node()
    sharing: Dict[Any, List[Any]] = {}
    made: List[Tuple[Any, Any]] = []
    for result in end.all_input_nodes:
        sharing.setdefault(memory_of(result.meta.get("val")), []).append(result)
    sharing.pop(None, None)
    for memory, results in sharing.items():
        for result in results if len(results) > 1 or _repeats(results[0].meta["val"]) else []:
            views = _views(result, memory)
            if views:
                with graph.inserting_before(end):
                    own = _copied(graph, views)
                end.replace_input_with(result, own)
                made.append((own, result))
                for node in reversed(views):
                    if not node.users:
                        graph.erase_node(node)
    return made


def share_again(graph: torch.fx.Graph, apart: Sequence[Tuple[Any, Any]]) -> None:
    """Undoes ``views_of_their_own`` for results that no part took. Inductor computes a value once if a result is also read elsewhere. If
    only a view at the end of the graph is a result, Inductor computes the value again there."""
    end = graph.output_node()
    for own, result in apart:
        if not result._erased and memory_of(result.meta["val"]) == memory_of(own.meta["val"]):
            end.replace_input_with(own, result)
            erase_unread(graph, own)


def _repeats(val: Any) -> bool:
    """Whether several elements of a tensor share one address, as after `expand`."""
    return isinstance(val, torch.Tensor) and any(isinstance(stride, int) and stride == 0 for stride in val.stride())


def _views(node: Any, memory: Any) -> List[Any]:
    """The views through which `node` shows a computed value, in their order; empty for memory of an input."""
    found: List[Any] = []
    while node.op == "call_function":
        viewed = next((i for i in node.all_input_nodes if memory_of(i.meta.get("val")) == memory), None)
        if viewed is None:
            if isinstance(node.meta["val"], (list, tuple)):
                found.pop()  # it picks from several values, and is not a view
            return found[::-1]
        found.append(node)
        node = viewed
    return []


def _copied(graph: torch.fx.Graph, views: List[Any]) -> Any:
    copies: Dict[Any, Any] = {}
    for node in views:
        copies[node] = graph.node_copy(node, lambda i: copies.get(i, i))
        copies[node].meta.pop(WAS, None)
    return copies[views[-1]]
