"""Replaces operators of Sinter in a graph that Inductor compiles, for rows that no plan serves.

An operator is opaque to Inductor, so torch computes its fallback step by step, without fusion. A server compiles a graph for each
range of rows. In ranges above every plan it replaces the operators, and Inductor fuses their ops as if Sinter were not there.
"""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

import torch
from torch.utils import _pytree

from ..runtime.gated_mlp import ACTIVATIONS
from .between_op import sum_over
from .choose_operator import replace_results

#: (x, residual, weight, eps) -> (the norm of their sum, their sum).
AddNorm = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], Tuple[torch.Tensor, torch.Tensor]]


def add_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> Tuple[torch.Tensor, torch.Tensor]:
    """The norm of a sum in ops that Inductor fuses into one kernel."""
    total = x.float() + residual.float()
    normed = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + eps)
    return normed.to(weight.dtype) * weight, total.to(x.dtype)


def expand(graph: torch.fx.Graph, add_norm: AddNorm = add_norm) -> int:
    """Replaces ``torch.ops.sinter.between_attentions`` and ``gated_mlp`` in `graph` by products, norms and activations.
    Layers whose matrices are codes keep their operator.

    Args:
        graph: the graph of a pass of Inductor after autograd: nodes carry their values as "val".
        add_norm: the server's function for the norm of a sum.

    Returns:
        How many were replaced.
    """

    def between(
        attended: torch.Tensor, stream: torch.Tensor, weights: List[torch.Tensor], eps: float, folded: bool = False, group: str = ""
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        whole = sum_over(group)
        o, norm, gate_up, down, next_norm, next = weights
        x, stream = add_norm(whole(torch.nn.functional.linear(attended, o)), stream, norm, eps)
        x, stream = add_norm(whole(_mlp(x, gate_up, down)), stream, next_norm, eps)
        return stream, torch.nn.functional.linear(x, next)

    # Products of codes stay in the operator, which calls the server's kernels.
    count = _replace(graph, torch.ops.sinter.between_attentions.default, between, lambda node: not _is_quantised(node))
    return count + _replace(graph, torch.ops.sinter.gated_mlp.default, _mlp)


def _mlp(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, act: str = "silu") -> torch.Tensor:
    gate, up = torch.nn.functional.linear(x, gate_up).chunk(2, dim=-1)
    return torch.nn.functional.linear(ACTIVATIONS[act](gate) * up, down)


def _is_quantised(node: torch.fx.Node) -> bool:
    """Whether a call of ``between_attentions`` has matrices of codes."""
    return bool(node.kwargs.get("quantizer")) or len(node.args) > 7 and bool(node.args[7])


def _replace(
    graph: torch.fx.Graph, target: Any, function: Callable[..., Any], fits: Callable[[torch.fx.Node], bool] = lambda node: True
) -> int:
    """Replaces each call of `target` that fits by the nodes of `function`."""
    found = [node for node in graph.nodes if node.op == "call_function" and node.target is target and fits(node)]
    for node in found:
        leaves, spec = _pytree.tree_flatten((node.args, node.kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.fx.Node)]
        traced = _trace(function, leaves, spec, places)
        inputs = [input for input in traced.nodes if input.op == "placeholder"]
        with graph.inserting_before(node):
            result: Any = graph.graph_copy(traced, dict(zip(inputs, (leaves[i] for i in places))))
        if isinstance(result, (tuple, list)):
            replace_results(graph, node, result)
        else:
            node.replace_all_uses_with(result)
            graph.erase_node(node)
    return len(found)


def _trace(function: Callable[..., Any], leaves: List[Any], spec: Any, places: List[int]) -> torch.fx.Graph:
    """The graph of `function`, whose inputs are the leaves at `places`; the others stay as they are."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    def call(*values: Any) -> Any:
        given = list(leaves)
        for i, value in zip(places, values):
            given[i] = value
        arguments, named = _pytree.tree_unflatten(given, spec)
        return function(*arguments, **named)

    values = [leaves[i].meta["val"] for i in places]
    with enable_python_dispatcher():
        made = make_fx(call, select_decomp_table(), tracing_mode="real")(*values)
    graph: torch.fx.Graph = made.graph
    return graph
