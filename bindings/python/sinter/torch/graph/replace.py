"""Replaces a part of a graph by one operator."""

from __future__ import annotations

import contextlib
import operator
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

import torch

from ..convert.arrays import Refused, extent
from ..convert.aten import TABLE
from ..convert.converter import Border, Converted, target_of
from .in_place import COPY, first_write


BESIDE = "sinter_beside"  # key in a node's meta: the node concatenates values that are adjacent in memory
WAS = "sinter_was"  # key in a node's meta: the node of the copied graph that has the same value


_CAST = "prims.convert_element_type.default"
_OPTIONS = {"alpha", "approximate", "rounding_mode"}  # keyword arguments of elementwise ops
#: Operators that this pass rewrites but that have no row in the table of operators.
_WRITTEN = ("aten.split.Tensor", "aten.split_with_sizes.default", "aten.unbind.int", "aten.index.Tensor")


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
        call.meta["val"] = torch.ops.sinter.run_chain.default([node.meta["val"] for node in inputs], _size(m), *arguments)
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


def memory_of(value: Any) -> Optional[int]:
    """An identifier of the memory that a node's value is in. For several tensors, of the first; None for a value without memory."""
    val = value[0] if isinstance(value, (list, tuple)) and value else value
    return val.untyped_storage()._cdata if isinstance(val, torch.Tensor) and val.layout == torch.strided else None


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
    if want.dtype != have.dtype:
        node = add_call(graph, torch.ops.prims.convert_element_type.default, node, want.dtype)
    return node


def add_call(graph: torch.fx.Graph, target: Any, *arguments: Any) -> torch.fx.Node:
    """Inserts a call of an operator at the graph's insertion point, with its value. If the operator raises, the graph is as before."""
    val = value_of(target, arguments)
    made = graph.call_function(target, arguments)
    made.meta["val"] = val
    return made


def value_of(target: Any, arguments: Any, named: Optional[Dict[str, Any]] = None) -> Any:
    """An operator's result for nodes: a fake tensor for fake ones, even if the operator decomposes into operators without operands."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses.fake_tensor import FakeTensor

    values, named_values = torch.utils._pytree.tree_map(_size, (tuple(arguments), named or {}))
    leaves = torch.utils._pytree.tree_leaves((values, named_values))
    mode: Any = next((leaf.fake_mode for leaf in leaves if isinstance(leaf, FakeTensor)), contextlib.nullcontext())
    with mode, enable_python_dispatcher():
        return target(*values, **named_values)


def is_elementwise(node: Any) -> bool:
    """Whether a graph may compute a node again from other operands, each element from one element of each. A node that draws random
    numbers, or that depends on an operand's memory order, does not qualify."""
    tags = getattr(node.target, "tags", ())
    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor) or node.is_impure() or not _OPTIONS.issuperset(node.kwargs):
        return False
    return target_of(node) == _CAST or torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags


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
    arguments, named = torch.fx.node.map_arg((was.args, was.kwargs), operands.__getitem__)
    val = value_of(was.target, arguments, named)
    made = graph.call_function(was.target, arguments, named)
    made.meta.update(was.meta, val=val)
    there[was] = made
    return made


def _is_operator(node: Any) -> bool:
    return node.op == "call_function" and str(node.target).startswith("sinter.")


def erase_unread(graph: torch.fx.Graph, node: Any, may: Callable[[Any], bool] = lambda node: not node.is_impure()) -> None:
    """Erases a node that nobody reads, then the nodes of its operands that nobody reads any longer. `may`: whether a node may be erased."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each.op == "call_function" and not each._erased and not each.users and may(each):
            operands = list(each.all_input_nodes)
            graph.erase_node(each)
            waiting.extend(operands)


def slices_for_splits(graph: torch.fx.Graph) -> None:
    """Rewrites each part of a split as a slice, and each part of an unbind as a select: views that do not depend on the other parts."""
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
    """The operator that returns only part `index`, and its arguments after the tensor."""
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
    """The values of nodes that are tensors."""
    return [node.meta["val"] for node in nodes if isinstance(node.meta.get("val"), torch.Tensor)]
