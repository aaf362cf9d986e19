"""Keeps values from the forward pass that the backward pass compares with a maximum, or with another value chosen among them.

The gradient of ``amax`` is shared by the elements that equal the maximum: ``eq(x, amax(x))``, divided by how many there are. Where x is
computed again in the backward pass, by other kernels than those that computed the maximum, no element may equal it, and the gradient is
infinite. So x is not computed again: the partitioner of PyTorch then keeps x, or the comparison, which is smaller.
"""

from __future__ import annotations

import operator
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.utils.checkpoint import CheckpointPolicy

_ATEN = torch.ops.aten
#: Operators whose result is one of their operand's elements, and operators that write elements of their fourth argument to places given by ids.
_CHOSEN = {_ATEN.amax.default, _ATEN.amin.default, _ATEN.max.default, _ATEN.min.default, _ATEN.median.default, _ATEN.nanmedian.default}
_CHOSEN_BY_IDS = {_ATEN.scatter_reduce.two, _ATEN.index_reduce.default}
_READ_BY_IDS = {_ATEN.gather.default, _ATEN.index_select.default, _ATEN.index.Tensor}
_AGAIN = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


def _source(node: Any) -> Any:
    """The node whose value a view shows: the partitioner always computes views again."""
    while _is_view(node):
        node = node.args[0]
    return node


def _is_view(node: Any) -> bool:
    if not isinstance(node, torch.fx.Node) or node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return _is_view(node.args[0])
    return isinstance(node.target, torch._ops.OpOverload) and (node.target.is_view or node.target is _ATEN._unsafe_view.default)


def _target(node: Any) -> Any:
    return node.target if isinstance(node, torch.fx.Node) else None


def _choice(extreme: Any) -> "Tuple[Any, Any] | None":
    """The operator that chose `extreme`, and the node whose elements it chose among; None for any other node."""
    node, among = _source(extreme), 0
    if _target(node) in _READ_BY_IDS:
        node, among = _source(node.args[0]), 3
    if _target(node) not in (_CHOSEN_BY_IDS if among else _CHOSEN):
        return None
    return node, _source(node.args[among])


def _comparisons(graph: torch.fx.Graph) -> Iterable[Tuple[Any, Any]]:
    """Pairs of a compared node and the node among whose elements the other operand was chosen. Values that checkpointing recomputes are left
    out: both operands are then recomputed, by the same kernels."""
    for node in graph.nodes:
        if node.target is _ATEN.eq.Tensor:
            for compared, extreme in (node.args, node.args[::-1]):
                choice = _choice(extreme)
                if choice is not None and choice[0].meta.get("recompute") not in _AGAIN:
                    yield _source(compared), choice[1]


def _equals(graph: torch.fx.Graph) -> Dict[Any, List[Any]]:
    """{node: all nodes that compute the same}: the partitioner merges them into one node, with the marks of the first."""
    first: Dict[Any, Any] = {}
    lists: Dict[Any, List[Any]] = {}
    found: Dict[Any, Any] = {}
    for node in graph.nodes:
        same = node
        if node.op == "call_function":
            arguments = torch.fx.node.map_arg((node.args, node.kwargs), found.__getitem__)
            same = first.setdefault((node.target, repr(arguments)), node)
        found[node] = same
        lists.setdefault(same, []).append(node)
    return {node: lists[same] for node, same in found.items()}


class KeepCompared(CustomGraphPass):
    """The pass over the joint forward and backward graph. It runs after the caller's `first`."""

    def __init__(self, first: Optional[Callable[[torch.fx.Graph], Any]]) -> None:
        self.first = first

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self.first is not None:
            self.first(graph)
        found = list(_comparisons(graph))
        equals = _equals(graph) if found else {}
        for compared, among in found:
            if compared in equals.get(among, ()):
                for each in equals[among]:
                    each.meta["recompute"] = CheckpointPolicy.MUST_SAVE

    def uuid(self) -> Any:
        """A constant, because the key of the graph pass includes this file's digest. None, which keeps graphs out of Inductor's cache, if the
        caller's pass has no key."""
        if self.first is None:
            return "sinter keeps what is compared with maxima"
        other = self.first.uuid() if isinstance(self.first, CustomGraphPass) else None
        return ("sinter", other) if other else None
