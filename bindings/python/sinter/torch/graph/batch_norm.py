"""Rewrites batch norms after convolutions as one scale and one shift for each channel, both computed only from weights.

A product's kernel takes both as per-column vectors. The norm as PyTorch decomposes it, with its root and its four vectors, would be a
separate kernel that reads an f32 result. The vectors that parts read are computed in each call, by one kernel for the whole graph.
"""

from __future__ import annotations

import operator
from typing import Any, Iterable, List, NamedTuple, Optional, Set, Tuple

import torch

from ..convert.arrays import DTYPES, HALVES
from ..convert.aten import TABLE
from ..convert.converter import CAST, target_of
from ..convert.op_table import viewed
from .nodes import add_call, as_type
from .put_back import WAS

#: The most elements of a value that is computed only from weights: vectors of channels, not matrices.
_MOST_ELEMENTS = 1 << 16
_STEPS = {"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor"}


class _Norm(NamedTuple):
    """Sums and products of a convolution's result with vectors of its channels.

    Attributes:
        line: nodes after the convolution; each reads the one before.
        steps: operators of the line and their vectors, in order.
    """

    convolution: Any
    line: List[Any]
    steps: List[Tuple[str, Any]]


def scales_and_shifts(graph: torch.fx.Graph, constants: Set[Any]) -> Set[Any]:
    """Rewrites batch norms after convolutions of 16 bits as x * scale + shift. Returns the nodes that compute both, only from `constants`.

    The order of `graph` stays topological.
    """
    made = of_constants(graph.nodes, constants)
    vectors: Set[Any] = set()
    for node in list(graph.nodes):
        norm = _norm_behind(node, made, constants)
        if norm is not None:
            vectors.update(_rewritten(graph, norm))
    waiting = list(vectors)
    while waiting:  # and nodes that only they read
        for operand in waiting.pop().all_input_nodes:
            if operand in made and operand not in constants and operand not in vectors and all(u in vectors for u in operand.users):
                vectors.add(operand)
                waiting.append(operand)
    return vectors


def made_together(graph: torch.fx.Graph, vectors: Iterable[Any]) -> None:
    """Makes one kernel of Inductor compute the `vectors` that Sinter's operators read. The caller sorts the graph."""
    operators = {node for node in graph.nodes if node.op == "call_function" and node.target is torch.ops.sinter.run_chain.default}
    read = [node for node in graph.nodes if node in vectors and any(user in operators for user in node.users)]
    if not read:
        return
    with graph.inserting_after(next(node for node in reversed(list(graph.nodes)) if node in read)):
        anchor = graph.call_function(torch.ops.aten.alias.default, (read[-1],))
    with graph.inserting_before(anchor):
        # Inductor makes one kernel of an operator on lists, including the nodes that compute its operands.
        many = graph.call_function(torch.ops.aten._foreach_mul.Scalar, (read, 1.0))
        many.meta["val"] = [torch.empty_like(node.meta["val"]) for node in read]
        for i, node in enumerate(read):
            item = graph.call_function(operator.getitem, (many, i))
            item.meta["val"] = many.meta["val"][i]
            node.replace_all_uses_with(item, lambda user: user in operators)
    graph.erase_node(anchor)


def of_constants(nodes: Iterable[Any], constants: Set[Any]) -> Set[Any]:
    """Small tensors that are computed only from `constants`, element by element."""
    made = set(constants)
    for node in nodes:
        row = TABLE.get(target_of(node))
        val = node.meta.get("val")
        if row is None or row.product or row.several or not isinstance(val, torch.Tensor):
            continue
        inputs = node.all_input_nodes
        static = all(isinstance(size, int) for size in val.shape)
        if inputs and static and val.numel() <= _MOST_ELEMENTS and all(i in made for i in inputs):
            made.add(node)
    return made


def _norm_behind(node: Any, made: Set[Any], constants: Set[Any]) -> Optional[_Norm]:
    if target_of(node) != "aten.convolution.default" or DTYPES.get(str(node.meta["val"].dtype)) not in HALVES:
        return None
    shape = node.meta["val"].shape
    bias = node.args[2]
    if len(shape) != 4 or bias is not None and bias not in made:
        return None
    line: List[Any] = []
    steps: List[Tuple[str, Any]] = []
    at = node
    while len(at.users) == 1:
        user = next(iter(at.users))
        vector = _vector(user, at, made, shape[1])
        if vector is None and not _widens(user):
            break
        if vector is not None:
            steps.append((target_of(user), vector))
        line.append(user)
        at = user
    while line and target_of(line[-1]) == CAST:
        line.pop()
    scaled = any(name == "aten.mul.Tensor" for name, _ in steps)
    plain = len(steps) <= 2 and all(_lies_so(vector, constants) for _, vector in steps)
    return _Norm(node, line, steps) if scaled and not plain else None


def _vector(user: Any, at: Any, made: Set[Any], channels: int) -> Optional[Any]:
    """The other operand of a sum or a product that reads `at`, if it is a vector of channels."""
    if target_of(user) not in _STEPS or len(user.args) != 2 or user.kwargs:
        return None
    a, b = user.args
    if a is not at and (b is not at or target_of(user) == "aten.sub.Tensor"):
        return None
    other = b if a is at else a
    if not isinstance(other, torch.fx.Node) or other not in made:
        return None
    shape = other.meta["val"].shape
    laid = len(shape) in (3, 4) and tuple(shape[-3:]) == (channels, 1, 1) and other.meta["val"].numel() == channels
    return other if laid else None


def _widens(node: Any) -> bool:
    return target_of(node) == CAST and node.meta["val"].dtype == torch.float32


def _lies_so(vector: Any, constants: Set[Any]) -> bool:
    """Whether a vector is a weight or a view of one, not computed."""
    return viewed(vector) in constants


def _rewritten(graph: torch.fx.Graph, norm: _Norm) -> List[Any]:
    """Replaces a norm by x * scale + shift. Returns the nodes that compute scale and shift."""
    last, convolution = norm.line[-1], norm.convolution
    vectors: List[Any] = []
    aten = torch.ops.aten

    def add(target: Any, *arguments: Any) -> Any:
        vectors.append(add_call(graph, target, *arguments))
        return vectors[-1]

    def wide(vector: Any) -> Any:
        channels = add(aten.reshape.default, vector, [-1, 1, 1])
        return channels if channels.meta["val"].dtype == torch.float32 else add(torch.ops.prims.convert_element_type.default, channels, torch.float32)

    with graph.inserting_before(last):
        scale, shift = None, None if convolution.args[2] is None else wide(convolution.args[2])
        for name, vector in norm.steps:
            value = wide(vector)
            if name == "aten.mul.Tensor":
                scale = value if scale is None else add(aten.mul.Tensor, scale, value)
                shift = None if shift is None else add(aten.mul.Tensor, shift, value)
            elif name == "aten.add.Tensor":
                shift = value if shift is None else add(aten.add.Tensor, shift, value)
            else:
                shift = add(aten.neg.default, value) if shift is None else add(aten.sub.Tensor, shift, value)
        result = add_call(graph, aten.mul.Tensor, convolution, scale)
        if shift is not None:
            result = add_call(graph, aten.add.Tensor, result, shift)
        result = as_type(graph, result, last.meta["val"].dtype)
    if convolution.args[2] is not None:
        convolution.meta.pop(WAS, None)
        convolution.args = (*convolution.args[:2], None, *convolution.args[3:])
    if WAS in last.meta:
        result.meta[WAS] = last.meta[WAS]
    last.replace_all_uses_with(result)
    for node in reversed(norm.line):
        graph.erase_node(node)
    return vectors
