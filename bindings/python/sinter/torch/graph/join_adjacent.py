"""Joins products of one value by several weights that are contiguous in memory into one product of all their columns. Examples are the
queries, keys and values of an attention whose weights are not constants of the graph. The operator takes each weight, and reads them as one.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from ..convert.converter import target_of
from .channels_last import tell_strides
from .join_frozen import MOST_JOINED, may_join, operands, parts_of
from .nodes import add_call, reads_memory
from .replace import BESIDE


class Joined(NamedTuple):
    """A product that several became.

    Attributes:
        product: its node in the graph.
        constants: the nodes of its weight, and of its bias if it has one. Each concatenates the parts' own.
        parts: slices of its columns, and the former product of each: the operator, its weight as a linear layer has it, and its bias or None.
    """

    product: Any
    constants: List[Any]
    parts: List[Tuple[Any, Any, Any, Any]]


def join_neighbours(graph: torch.fx.Graph, constants: Set[Any], pairs: FrozenSet[Tuple[int, int]]) -> List[Joined]:
    """Joins products of one value by weights of `constants` that are adjacent in memory, by the `pairs` of the model's inputs."""
    if not pairs or reads_memory(graph):
        return []
    at = {node.meta["desc"].idx: node for node in constants if node.op == "placeholder"}
    behind = {at[i]: at[j] for i, j in pairs if i in at and j in at}
    groups: Dict[Any, Dict[Any, Any]] = {}
    for node in graph.nodes:
        weight = _weight(node, constants)
        if weight is not None:
            groups.setdefault((*_rows(operands(node)[0]), node.target), {}).setdefault(weight, node)
    found = [_join(graph, run) for group in groups.values() for run in _runs(group, behind)]
    tell_strides(graph, [part for joined in found for part, *_ in joined.parts])
    return found


def _rows(x: Any) -> Tuple[Any, Any]:
    """A key of a product's operand, equal for equal views: each linear layer makes its own view."""
    shape = x.meta["val"].shape
    while target_of(x) in ("aten.view.default", "aten.reshape.default"):
        x = x.args[0]
    return x, shape


def _weight(node: Any, constants: Set[Any]) -> Optional[Any]:
    """The weight of a product that may be joined, as a linear layer has it."""
    if not may_join(node) or target_of(operands(node)[1]) != "aten.permute.default":
        return None
    weight, bias = operands(node)[1].args[0], operands(node)[2]
    plain = len(weight.meta["val"].shape) == 2 and (bias is None or bias in constants)
    return weight if weight in constants and plain else None


def _runs(group: Dict[Any, Any], behind: Dict[Any, Any]) -> Iterator[List[Any]]:
    """Runs of products whose weights, and whose biases, are adjacent in memory, in that order."""

    def next_of(weight: Any) -> Optional[Any]:
        other = behind.get(weight)
        if other not in group:
            return None
        biases = operands(group[weight])[2], operands(group[other])[2]
        return other if biases[0] is None or behind.get(biases[0]) is biases[1] else None

    firsts = set(group) - {next_of(weight) for weight in group}
    for weight in [weight for weight in group if weight in firsts]:
        run: List[Any] = []
        at: Optional[Any] = weight
        while at is not None:
            run.append(group[at])
            at = next_of(at)
        if 1 < len(run) <= MOST_JOINED:
            yield run


def _join(graph: torch.fx.Graph, run: List[Any]) -> Joined:
    order = {node: i for i, node in enumerate(graph.nodes)}
    first = min(run, key=order.__getitem__)
    x, _, bias = operands(first)
    aten = torch.ops.aten
    with graph.inserting_before(first):
        constants = [add_call(graph, aten.cat.default, [operands(node)[1].args[0] for node in run])]
        given = [x, add_call(graph, aten.permute.default, constants[0], [1, 0])]
        if bias is not None:
            constants.append(add_call(graph, aten.cat.default, [operands(node)[2] for node in run]))
            given.insert(0, constants[1])
        product = add_call(graph, first.target, *given)
    for constant in constants:
        constant.meta[BESIDE] = True
    former = [(node.target, *operands(node)) for node in run]
    parts = parts_of(graph, product, run)
    for _, own, _, _ in former:
        while not own.users:  # the product's own view of x
            own, view = own.args[0], own
            graph.erase_node(view)
    return Joined(product, constants, [(part, target, transposed.args[0], bias) for part, (target, _, transposed, bias) in zip(parts, former)])


def part_again(graph: torch.fx.Graph, joined: Joined) -> None:
    """Undoes a join. Only the weights and biases among the former operands are certain to be in the graph still: nodes of parts that
    became operators are erased, including views of weights. x is taken from the joined product, which reads its current replacement."""
    nodes = []
    x = operands(joined.product)[0]
    for part, target, weight, bias in joined.parts:
        if part._erased:  # the operator of another part reads these columns itself
            continue
        with graph.inserting_before(part):
            transposed = add_call(graph, torch.ops.aten.permute.default, weight, [1, 0])
            nodes.append(add_call(graph, target, *(i for i in (bias, x, transposed) if i is not None)))
        part.replace_all_uses_with(nodes[-1])
        graph.erase_node(part)
    if not joined.product.users:
        graph.erase_node(joined.product)
    tell_strides(graph, nodes)
    drop_unread(graph, joined)


def drop_unread(graph: torch.fx.Graph, joined: Joined) -> None:
    """Erases concatenated weights that nothing reads: Inductor would copy them together."""
    for constant in joined.constants:
        for view in list(constant.users):
            if not view.users:
                graph.erase_node(view)
        if not constant.users:
            graph.erase_node(constant)
