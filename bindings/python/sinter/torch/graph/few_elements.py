"""Rewrites gathers of few elements of a computed value, as in a cross entropy: only these elements are then computed.

A part that ends in the value would write all of it for one element of each row. Inductor computes such elements in the kernel that reads them.
"""

from __future__ import annotations

from typing import Any, Dict, List

import torch

from ..convert.converter import target_of
from .nodes import add_again, add_call, erase_unread, is_elementwise

_GATHER = "aten.gather.default"
_FEWER = 8  # the value has at least so many times the elements that are read of it
_MOST_OPS = 16  # the most ops that are computed again for them


def few_elements(graph: torch.fx.Graph) -> None:
    """Rewrites each gather of few elements of a value: the value's elementwise ops are applied to gathers of its operands."""
    for node in list(graph.nodes):
        if target_of(node) != _GATHER or len(node.args) < 3 or not _reads_few(node):
            continue
        ops = _ops(node.args[0], node)
        if not 0 < len(ops) <= _MOST_OPS:
            continue
        with graph.inserting_before(node):
            picked = _picked(graph, node.args[0], node, ops, {})
        node.replace_all_uses_with(picked)
        erase_unread(graph, node)


def _reads_few(node: Any) -> bool:
    """Whether the ids are few, and match the value's extents along all other axes."""
    value, axis, ids = node.args[0].meta["val"], node.args[1], node.args[2].meta["val"]
    if not value.shape or not all(isinstance(size, int) for size in (*value.shape, *ids.shape)):
        return False
    rows = [size for i, size in enumerate(value.shape) if i != axis % value.dim()]
    return rows == [size for i, size in enumerate(ids.shape) if i != axis % value.dim()] and _FEWER * ids.numel() <= value.numel()


def _ops(value: Any, gather: Any) -> List[Any]:
    """The elementwise ops that make `value`, each of which may be computed from gathered operands."""
    found: List[Any] = []
    waiting = [value]
    while waiting and len(found) <= _MOST_OPS:
        node = waiting.pop()
        if node not in found and is_elementwise(node) and all(_fits(i, node, gather) for i in node.all_input_nodes):
            found.append(node)
            waiting.extend(i for i in node.all_input_nodes if _is_whole(i, node))
    return found


def _is_whole(operand: Any, node: Any) -> bool:
    return bool(operand.meta["val"].shape == node.meta["val"].shape)


def _fits(operand: Any, node: Any, gather: Any) -> bool:
    """Whether an operand has all elements of `node`, or a single one along the axis that ids choose from."""
    own, whole = operand.meta.get("val"), node.meta["val"]
    if not isinstance(own, torch.Tensor):
        return False
    axis = gather.args[1] % whole.dim() - (whole.dim() - own.dim())
    return _is_whole(operand, node) or axis < 0 or own.shape[axis] == 1


def _picked(graph: torch.fx.Graph, value: Any, gather: Any, ops: List[Any], made: Dict[Any, Any]) -> Any:
    """The elements of `value` that `gather` names, at the graph's insertion point. `made`: the elements of other values."""
    if value in made:
        return made[value]
    if value not in ops:
        made[value] = add_call(graph, torch.ops.aten.gather.default, value, *gather.args[1:])
    else:
        made[value] = add_again(graph, value, lambda i: _picked(graph, i, gather, ops, made) if _is_whole(i, value) else i)
    return made[value]
