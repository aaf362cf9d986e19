"""Puts one operator in the place of a part of a graph."""

from __future__ import annotations

import contextlib
import operator
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

import torch

from ..convert.arrays import Refused, extent
from ..convert.aten import TABLE
from ..convert.converter import Border, Converted, target_of
from .in_place import COPY, first_write


BESIDE = "sinter_beside"  # of a node: it holds values that lie behind each other in memory
WAS = "sinter_was"  # of a node: the node of the copied graph that has its value


_CAST = "prims.convert_element_type.default"
_OPTIONS = {"alpha", "approximate", "rounding_mode"}  # of elementwise ops
#: What is written anew and is no row of the table of operators.
_WRITTEN = ("aten.split.Tensor", "aten.split_with_sizes.default", "aten.unbind.int", "aten.index.Tensor")


class Symbols:
    """Nodes of a graph that are a symbolic size of its inputs, by its expression. None hangs on what a part computes."""

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
        """A node whose value is `expression`, a size or a product of sizes; made at the graph's insertion point where none is.

        Raises:
            Refused: for one that no input tells.
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
            made.meta["val"] = _size(total) * _size(other)
            total = made
        return total


def _known(nodes: Sequence[Any], sizes: Dict[Any, Any]) -> bool:
    return bool(nodes) and all(isinstance(i.meta.get("val"), torch.SymInt) and extent(i.meta["val"]) in sizes for i in nodes)


def _size(value: Any) -> Any:
    return value.meta["val"] if isinstance(value, torch.fx.Node) else value


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
        replaced: nodes that earlier calls put others in the place of; this one's are added.
        arguments: of the operator behind inputs and M.
        bound: with one, the part stays, and its results are compared with the operator's.
        name: of the part, in comparisons.

    Raises:
        Refused: for a size that no input tells; the graph is as before.
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
    """The operator that writes all results over inputs of the graph, in the place of the copies there, and before all others: those may
    write over what it reads."""
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
    """The operator behind `part`, and its results as the graph had them, which nothing reads yet.

    Raises:
        Refused: for a size that no input tells; what was inserted so far stays.
    """
    symbols = Symbols(graph) if made.rows.symbol is not None else None
    with graph.inserting_after(part[-1]):
        anchor = graph.call_function(torch.ops.aten.alias.default, (part[-1],))  # all is inserted before it
    with graph.inserting_before(anchor):
        m = symbols.node(made.rows.symbol) if symbols is not None else 0
        inputs = [node for border in made.inputs for node in given_apart(border) or [_entering(graph, border, replaced)]]
        call = graph.call_function(torch.ops.sinter.run_chain.default, (inputs, m, *arguments))
        call.meta["val"] = torch.ops.sinter.run_chain.default([node.meta["val"] for node in inputs], _size(m), *arguments)
        leaving = []
        for i, border in enumerate(made.outputs):
            result = graph.call_function(operator.getitem, (call, i))
            result.meta["val"] = call.meta["val"][i]
            leaving.append(_leaving(graph, result, border, symbols))
    graph.erase_node(anchor)
    return call, leaving


def _tell_views(node: torch.fx.Node, was: torch.Tensor) -> None:
    """Makes the values of views of `node`, which were views of `was`, views of its own value. Inductor knows by them whose memory is whose:
    it drops a copy between two values of one memory."""
    memory = memory_of(was)
    waiting = [node]
    while waiting:
        for user in waiting.pop().users:
            if user.op == "call_function" and memory_of(user.meta.get("val")) == memory:
                user.meta["val"] = value_of(user.target, user.args, user.kwargs)
                waiting.append(user)


def memory_of(value: Any) -> Optional[int]:
    """Which memory a node's value lies in; of several tensors, the first's; None of what has none."""
    val = value[0] if isinstance(value, (list, tuple)) and value else value
    return val.untyped_storage()._cdata if isinstance(val, torch.Tensor) and val.layout == torch.strided else None


def given_apart(border: Border) -> Optional[Sequence[Any]]:
    """The weights that an input of a part is made of, where it is several."""
    node, order = border.node, border.order
    if target_of(node) == "aten.permute.default" and order == (1, 0):
        node, order = node.args[0], (0, 1)
    return node.args[0] if node.meta.get(BESIDE) and order == tuple(range(len(order))) else None


def _entering(graph: torch.fx.Graph, border: Border, replaced: Dict[Any, Any]) -> torch.fx.Node:
    """The border's value as the operator takes it: a view."""
    node: torch.fx.Node = replaced.get(border.node, border.node)
    source: Any = node.args[0] if target_of(node) == "aten.permute.default" and not border.repeated else None
    if source is not None:
        moved: Any = node.args[1]
        if [moved[i] % len(moved) for i in border.order] == list(range(len(moved))):  # the axes are where they were before
            found: torch.fx.Node = replaced.get(source, source)
            return found
    for axis in border.repeated:
        node = add_call(graph, torch.ops.aten.slice.Tensor, node, axis, 0, 1)
    if border.order != tuple(range(len(border.order))):
        node = add_call(graph, torch.ops.aten.permute.default, node, list(border.order))
    return node


def _leaving(graph: torch.fx.Graph, node: torch.fx.Node, border: Border, symbols: Optional[Symbols]) -> torch.fx.Node:
    """The operator's result as the border's value: a view."""
    if border.order != tuple(range(len(border.order))):
        back = sorted(range(len(border.order)), key=lambda i: border.order[i])
        node = add_call(graph, torch.ops.aten.permute.default, node, back)
    want, have = border.node.meta["val"], node.meta["val"]
    if len(want.shape) != len(have.shape) or symbols is not None and [extent(s) for s in want.shape] != [extent(s) for s in have.shape]:
        assert symbols is not None
        sizes = [size if isinstance(size, int) else symbols.node(extent(size)) for size in want.shape]
        node = add_call(graph, torch.ops.aten.reshape.default, node, sizes)
    if want.dtype != have.dtype:
        node = add_call(graph, torch.ops.prims.convert_element_type.default, node, want.dtype)
    return node


def add_call(graph: torch.fx.Graph, target: Any, *arguments: Any) -> torch.fx.Node:
    """Calls an operator at the graph's insertion point, with its value. Where the operator raises, the graph is as before."""
    val = value_of(target, arguments)
    made = graph.call_function(target, arguments)
    made.meta["val"] = val
    return made


def value_of(target: Any, arguments: Any, named: Optional[Dict[str, Any]] = None) -> Any:
    """What an operator gives for nodes: a fake tensor for fake ones, also of an operator that is decomposed into some without operands."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses.fake_tensor import FakeTensor

    values, named_values = torch.utils._pytree.tree_map(_size, (tuple(arguments), named or {}))
    leaves = torch.utils._pytree.tree_leaves((values, named_values))
    mode: Any = next((leaf.fake_mode for leaf in leaves if isinstance(leaf, FakeTensor)), contextlib.nullcontext())
    with mode, enable_python_dispatcher():
        return target(*values, **named_values)


def is_elementwise(node: Any) -> bool:
    """Whether a graph may compute a node again from other operands, an element from one element of each. It may not draw random numbers
    a second time, nor ask other operands for one's order of memory."""
    tags = getattr(node.target, "tags", ())
    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor) or node.is_impure() or not _OPTIONS.issuperset(node.kwargs):
        return False
    return target_of(node) == _CAST or torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags


def copy_of(graph: torch.fx.Graph) -> torch.fx.Graph:
    """The graph as it is, for `put_back`; its nodes are told which of the copy they were, and who writes one anew hands that on."""
    kept = torch.fx.Graph()
    copies: Dict[Any, Any] = {}
    kept.output(kept.graph_copy(graph, copies))
    for node, copy in copies.items():
        node.meta[WAS] = copy
    return kept


def put_back(graph: torch.fx.Graph, kept: torch.fx.Graph) -> None:
    """Makes `graph`, whose inputs are those of `kept`, what it was when `kept` was copied."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    meta = next(node.meta for node in reversed(graph.nodes) if node.op == "output")
    for node in reversed(list(graph.nodes)):
        if node.op != "placeholder":
            graph.erase_node(node)
    given = (node for node in kept.nodes if node.op == "placeholder")
    graph.output(graph.graph_copy(kept, dict(zip(given, inputs)))).meta.update(meta)


def forget_what_was(graph: torch.fx.Graph) -> None:
    """Drops the copied graph's nodes, which nothing outside of this pass knows."""
    for node in graph.nodes:
        node.meta.pop(WAS, None)


def put_rest_back(graph: torch.fx.Graph, taken: Sequence[Any], replaced: Dict[Any, Any]) -> None:
    """Makes what no operator reads what it was when the graph was copied: Inductor runs some of it slower as it was written anew. The caller
    sorts the graph.

    Args:
        taken: nodes that operators took the place of.
        replaced: those of them that others read, to what they read now.
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
    """A node with the value of `was`, of those that are `there` and others that are made at the graph's insertion point; None where it takes
    what only operators compute."""
    if was in there:
        return there[was]
    row = TABLE.get(target_of(was))
    if was in inside or was.op != "call_function" or row is None and target_of(was) not in _WRITTEN or row is not None and row.product:
        return None
    operands = {i: _as_it_was(graph, i, there, inside) for i in was.all_input_nodes}
    if None in operands.values():
        return None
    arguments, named = torch.fx.node.map_arg((was.args, was.kwargs), operands.__getitem__)
    val = value_of(was.target, arguments, named)
    made = graph.call_function(was.target, arguments, named)
    made.meta.update(was.meta, val=val)
    there[was] = made
    return made


def _is_operator(node: Any) -> bool:
    return node.op == "call_function" and str(node.target).startswith("sinter.")


def erase_unread(graph: torch.fx.Graph, node: Any, may: Callable[[Any], bool] = lambda node: not node.is_impure()) -> None:
    """Erases a node that nobody reads, and what made its operands and nobody reads then. `may`: whether a node may be erased."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each.op == "call_function" and not each._erased and not each.users and may(each):
            operands = list(each.all_input_nodes)
            graph.erase_node(each)
            waiting.extend(operands)


def slices_for_splits(graph: torch.fx.Graph) -> None:
    """A part of a split becomes a slice, one of an unbind a select: views that need no other part beside them."""
    for node in list(graph.nodes):
        if target_of(node) != "getitem" or not hasattr(node.args[0], "meta"):
            continue
        parent, index = node.args[0], node.args[1]
        view = _part_of(parent, index)
        if view is None:
            continue
        with graph.inserting_before(node):
            part = graph.call_function(view[0], (parent.args[0], *view[1:]))
        part.meta.update(node.meta)
        node.replace_all_uses_with(part)
        graph.erase_node(node)
        if not parent.users:
            graph.erase_node(parent)


def _part_of(parent: torch.fx.Node, index: int) -> "Optional[tuple[Any, ...]]":
    """The operator that gives part `index` alone, and its arguments behind the tensor."""
    name = target_of(parent)
    if name == "aten.unbind.int":
        return torch.ops.aten.select.int, parent.args[1] if len(parent.args) > 1 else parent.kwargs.get("dim", 0), index
    if name not in ("aten.split.Tensor", "aten.split_with_sizes.default"):
        return None
    sizes: Any = parent.args[1]
    axis: Any = parent.args[2] if len(parent.args) > 2 else parent.kwargs.get("dim", 0)
    whole = parent.args[0].meta["val"].shape[axis]  # type: ignore[union-attr]
    if isinstance(sizes, int) and isinstance(whole, int):
        return torch.ops.aten.slice.Tensor, axis, index * sizes, min((index + 1) * sizes, whole)
    if isinstance(sizes, (list, tuple)) and all(isinstance(size, int) for size in sizes):
        return torch.ops.aten.slice.Tensor, axis, sum(sizes[:index]), sum(sizes[: index + 1])
    return None


def results(nodes: Sequence[Any]) -> List[Any]:
    """Values of nodes that are tensors."""
    return [node.meta["val"] for node in nodes if isinstance(node.meta.get("val"), torch.Tensor)]
