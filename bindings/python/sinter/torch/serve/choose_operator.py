"""``torch.ops.sinter.plan_or_server``: the results of a plan and of a server's own layers, of which a graph keeps one.

A server that compiles a graph for each range of rows traces both. In each graph a pass chooses one of them before the graph is lowered, and
what only the other one needs is erased. So rows that no plan serves are computed by the graph that the server has without Sinter.
"""

from __future__ import annotations

import operator
from typing import Any, Dict, List, Sequence, Tuple

import torch

from ..runtime.register import register

_Two = Tuple[torch.Tensor, torch.Tensor]


def _by_plan(plan: List[torch.Tensor], server: List[torch.Tensor]) -> _Two:
    """The operator, if no pass has chosen. Results of operators do not alias their arguments."""
    first, second = plan
    return first.clone(), second.clone()


def _fake(plan: List[torch.Tensor], server: List[torch.Tensor]) -> _Two:
    first, second = plan
    return torch.empty_like(first), torch.empty_like(second)


def replace_results(graph: torch.fx.Graph, node: Any, results: Sequence[Any]) -> None:
    """Erases an operator of several results, whose readers then read `results`."""
    for user in list(node.users):
        assert user.target is operator.getitem, f"{user} takes all results of {node}"
        user.replace_all_uses_with(results[user.args[1]])
        graph.erase_node(user)
    graph.erase_node(node)


def choose(graph: torch.fx.Graph, plan: bool) -> int:
    """Replaces each ``plan_or_server`` by the results of the plan or of the server, and erases what nothing uses.

    Returns:
        How many were replaced.
    """
    target: Any = torch.ops.sinter.plan_or_server.default
    found = [node for node in graph.nodes if node.op == "call_function" and node.target is target]
    for node in found:
        named: Dict[str, Any] = {**dict(zip(("plan", "server"), node.args)), **node.kwargs}
        replace_results(graph, node, named["plan" if plan else "server"])
    if found:
        graph.eliminate_dead_code()
    return len(found)


register("plan_or_server", "(Tensor[] plan, Tensor[] server) -> (Tensor, Tensor)", _by_plan, _by_plan, _fake)
