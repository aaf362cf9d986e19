"""Replaces a part of a graph by one operator."""

from __future__ import annotations

import operator
from typing import Any, Dict, List, Optional, Sequence

import torch

from ..convert.arrays import Refused, extent
from ..convert.converter import Border, Converted, target_of
from .in_place import COPY, first_write
from .nodes import add_call, as_type, memory_of, value_at, value_of

BESIDE = "sinter_beside"  # key in a node's meta: the node concatenates values that are adjacent in memory
class Symbols:
    """Nodes of a graph that are symbolic sizes of its inputs, by their expressions. None depends on a value that a part computes."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self._graph = graph
        self._sizes: Dict[Any, Any] = {}
        self._tensors: Dict[Any, Any] = {}
        for node in graph.nodes:
            val = node.meta.get("val")
            if isinstance(val, torch.SymInt) and (node.op == "placeholder" or _known(node.all_input_nodes, self._sizes)):
                self._sizes.setdefault(extent(val), node)
            elif isinstance(val, torch.Tensor) and node.op == "placeholder":
                for axis, size in enumerate(val.shape):
                    if not isinstance(size, int):
                        self._tensors.setdefault(extent(size), (node, axis, size))

    def node(self, expression: Any) -> Any:
        """A node whose value is `expression`, a size or a product of sizes. If there is none, it is made at the graph's insertion point.

        Raises:
            Refused: for an expression that the inputs do not determine.
        """
        if expression in self._sizes:
            return self._sizes[expression]
        if expression in self._tensors:
            tensor, axis, size = self._tensors[expression]
            made = self._graph.call_function(torch.ops.aten.sym_size.int, (tensor, axis))
            made.meta["val"] = size
            return made
        factors = [int(f) if f.is_number else f for f in getattr(expression, "args", ())]
        if not getattr(expression, "is_Mul", False) or not factors:
            raise Refused(f"no input tells the size {expression}")
        total: Any = factors[0] if isinstance(factors[0], int) else self.node(factors[0])
        for factor in factors[1:]:
            other = factor if isinstance(factor, int) else self.node(factor)
            made = self._graph.call_function(operator.mul, (total, other))
            made.meta["val"] = value_at(total) * value_at(other)
            total = made
        return total


def _known(nodes: Sequence[Any], sizes: Dict[Any, Any]) -> bool:
    return bool(nodes) and all(isinstance(i.meta.get("val"), torch.SymInt) and extent(i.meta["val"]) in sizes for i in nodes)


def replace(
    graph: torch.fx.Graph,
    part: Sequence[torch.fx.Node],
    made: Converted,
    arguments: Sequence[Any],
    bound: Optional[float],
    name: str,
    replaced: Dict[Any, Any],
) -> torch.fx.Node:
    """Calls ``run_chain`` where `part` ends, and erases `part`. The caller sorts the graph.

    Args:
        replaced: maps nodes that earlier calls replaced to their replacements; this call adds its own.
        arguments: the operator's arguments after inputs and M.
        bound: if given, the part stays, and its results are compared with the operator's.
        name: the part's name in comparisons.

    Raises:
        Refused: for a size that the inputs do not determine; the graph is as before.
    """
    if made.over and bound is None:
        return _over(graph, part, made, arguments, replaced)
    before = set(graph.nodes)
    try:
        call, leaving = _inserted(graph, part, made, arguments, replaced)
    except Refused:
        for node in reversed(list(graph.nodes)):
            if node not in before:
                graph.erase_node(node)
        raise
    inside = set(part)
    for border, result in zip(made.outputs, leaving):
        expected, own = border.node, result
        if bound is not None:
            with graph.inserting_after(result):
                own = graph.call_function(torch.ops.sinter.compared.default, (result, expected, f"{name}.{expected.name}", bound))
            own.meta["val"] = result.meta["val"]
        expected.replace_all_uses_with(own, lambda user: user not in inside and user is not own)
        _tell_views(own, expected.meta["val"])
        replaced[expected] = own
    if bound is None:
        for node in reversed(part):
            graph.erase_node(node)
    return call


def _over(
    graph: torch.fx.Graph, part: Sequence[torch.fx.Node], made: Converted, arguments: Sequence[Any], replaced: Dict[Any, Any]
) -> torch.fx.Node:
    """The operator that overwrites inputs of the graph with all results, instead of the copies there. It is inserted before all other copies,
    because these may overwrite its operands."""
    copies = [next(user for user in border.node.users if target_of(user) == COPY) for border in made.outputs]
    with graph.inserting_before(first_write(graph)):
        given = [_entering(graph, border, replaced) for border in made.inputs]
        written = [given[i] for i in made.over]
        kept = [node for i, node in enumerate(given) if i not in made.over]
        call = graph.call_function(torch.ops.sinter.run_chain_over.default, (kept, written, 0, *arguments))
    call.meta["val"] = None
    for node in (*copies, *reversed(part)):
        graph.erase_node(node)
    return call


def _inserted(
    graph: torch.fx.Graph, part: Sequence[torch.fx.Node], made: Converted, arguments: Sequence[Any], replaced: Dict[Any, Any]
) -> "tuple[torch.fx.Node, List[torch.fx.Node]]":
    """Inserts the operator after `part`. Returns it, and its results in the form that the graph had, which nothing reads yet.

    Raises:
        Refused: for a size that the inputs do not determine; nodes that were inserted so far stay.
    """
    symbols = Symbols(graph) if made.rows.symbol is not None else None
    with graph.inserting_after(part[-1]):
        anchor = graph.call_function(torch.ops.aten.alias.default, (part[-1],))  # all nodes are inserted before it
    with graph.inserting_before(anchor):
        m = symbols.node(made.rows.symbol) if symbols is not None else 0
        inputs = [node for border in made.inputs for node in given_apart(border) or [_entering(graph, border, replaced)]]
        call = graph.call_function(torch.ops.sinter.run_chain.default, (inputs, m, *arguments))
        call.meta["val"] = torch.ops.sinter.run_chain.default([node.meta["val"] for node in inputs], value_at(m), *arguments)
        leaving = []
        for i, border in enumerate(made.outputs):
            result = graph.call_function(operator.getitem, (call, i))
            result.meta["val"] = call.meta["val"][i]
            leaving.append(_leaving(graph, result, border, symbols))
    graph.erase_node(anchor)
    return call, leaving


def _tell_views(node: torch.fx.Node, was: torch.Tensor) -> None:
    """Updates the metadata of views of `node`, which were views of `was`: they become views of the value of `node`. Inductor relies on it to
    know which values share memory: it drops a copy between two such values."""
    memory = memory_of(was)
    waiting = [node]
    while waiting:
        for user in waiting.pop().users:
            if user.op == "call_function" and memory_of(user.meta.get("val")) == memory:
                user.meta["val"] = value_of(user.target, user.args, user.kwargs)
                waiting.append(user)


def given_apart(border: Border) -> Optional[Sequence[Any]]:
    """The weights that make up an input of a part, if it concatenates several; else None."""
    node, order = border.node, border.order
    if target_of(node) == "aten.permute.default" and order == (1, 0):
        node, order = node.args[0], (0, 1)
    return node.args[0] if node.meta.get(BESIDE) and order == tuple(range(len(order))) else None


def _entering(graph: torch.fx.Graph, border: Border, replaced: Dict[Any, Any]) -> torch.fx.Node:
    """The border's value in the operator's axis order: a view."""
    node: torch.fx.Node = replaced.get(border.node, border.node)
    source: Any = node.args[0] if target_of(node) == "aten.permute.default" and not border.repeated else None
    if source is not None:
        moved: Any = node.args[1]
        if [moved[i] % len(moved) for i in border.order] == list(range(len(moved))):  # the axes have their former order again
            found: torch.fx.Node = replaced.get(source, source)
            return found
    for axis in border.repeated:
        node = add_call(graph, torch.ops.aten.slice.Tensor, node, axis, 0, 1)
    if border.order != tuple(range(len(border.order))):
        node = add_call(graph, torch.ops.aten.permute.default, node, list(border.order))
    return node


def _leaving(graph: torch.fx.Graph, node: torch.fx.Node, border: Border, symbols: Optional[Symbols]) -> torch.fx.Node:
    """The operator's result in the graph's axis order: a view."""
    if border.order != tuple(range(len(border.order))):
        back = sorted(range(len(border.order)), key=lambda i: border.order[i])
        node = add_call(graph, torch.ops.aten.permute.default, node, back)
    want, have = border.node.meta["val"], node.meta["val"]
    if len(want.shape) != len(have.shape) or symbols is not None and [extent(s) for s in want.shape] != [extent(s) for s in have.shape]:
        assert symbols is not None
        sizes = [size if isinstance(size, int) else symbols.node(extent(size)) for size in want.shape]
        node = add_call(graph, torch.ops.aten.reshape.default, node, sizes)
    return as_type(graph, node, want.dtype)
