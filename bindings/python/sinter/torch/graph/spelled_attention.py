"""Finds attention that a model writes as products and a softmax, and that Inductor did not replace by PyTorch's own operator, so that its products
are captured. The library finds it again in the chain (src/attention)."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Tuple

import torch

from ..convert.attention import MOST_HEAD
from ..convert.converter import PLACE, target_of
from .nodes import add_call
from .put_back import WAS

_PRODUCT = "aten.bmm.default"
_RESHAPES = ("aten.view.", "aten.reshape.", "aten._unsafe_view.")
_MOVES = (*_RESHAPES, "aten.unsqueeze.", "aten.squeeze.", "aten.permute.")
_VIEWS = (*_MOVES, "aten.expand.", "aten.clone.", "prims.convert_element_type.")
_PERMUTED = ("aten.unsqueeze.default", "aten.permute.default", "aten.clone.default")
_STEPS = (*_VIEWS, *(f"aten.{name}." for name in "mul div add sub where tanh sigmoid neg abs relu maximum minimum".split()))
_MOST_STEPS = 24


def tell_products(nodes: Iterable[Any]) -> None:
    """Notes at products of attention which of the two they are."""
    for node in list(nodes):
        scores = _scores_of(node) if target_of(node) == _PRODUCT else None
        if scores is not None and _fits(scores, node):
            node.meta[PLACE], scores.meta[PLACE] = 2, 1
            _scale_first(_quotient(node).args[0])
            _straighten(node, scores)
            for operand in (*scores.args, node.args[1]):
                _drop_ones(operand)


def _fits(scores: Any, product: Any) -> bool:
    """Whether a kernel takes the extents: all are numbers, and the columns of a head are a multiple of 8 up to the limit."""
    sizes = [size for node in (scores, product) for i in (node, *node.args[:2]) for size in i.meta["val"].shape]
    heads = (scores.args[0].meta["val"].shape[2], product.meta["val"].shape[2])
    return all(isinstance(size, int) for size in sizes) and all(head % 8 == 0 and 8 <= head <= MOST_HEAD for head in heads)


def _scores_of(product: Any) -> Optional[Any]:
    """The product of q and k, found from the product of probabilities and v. Nobody else reads the values between both."""
    quotient = _quotient(product)
    if target_of(quotient) != "aten.div.Tensor":
        return None
    powers, total = quotient.args[:2]
    if target_of(powers) != "aten.exp.default" or len(powers.users) != 2 or not _reduces(total, "aten.sum.dim_IntList", powers):
        return None
    difference = _factor(powers.args[0])[0]
    if target_of(difference) != "aten.sub.Tensor" or not _reduces(difference.args[1], "aten.amax.default", difference.args[0]):
        return None
    shape = powers.meta["val"].shape
    waiting, budget = [difference.args[0]], _MOST_STEPS
    while waiting and budget:
        node, budget = waiting.pop(), budget - 1
        if len(node.users) != (2 if node is difference.args[0] else 1):
            continue
        if target_of(node) == _PRODUCT:
            return node
        if target_of(node).startswith(_STEPS) and not _reorders(node):
            waiting.extend(i for i in node.all_input_nodes if i.meta["val"].numel() == shape.numel())
    return None


def _quotient(product: Any) -> Any:
    """The last op of the softmax whose probabilities a product reads."""
    return _below(product.args[0], _VIEWS)


def _factor(node: Any) -> Tuple[Any, float]:
    """The difference that a number multiplies, and the number, above zero: Inductor makes ``exp((x - amax(x)) * s)`` of ``softmax(x * s)``."""
    name, by = target_of(node), node.args[1] if len(node.args) > 1 else None
    if name not in ("aten.mul.Tensor", "aten.div.Tensor") or not isinstance(by, (int, float)) or by <= 0 or len(node.args[0].users) != 1:
        return node, 1.0
    if target_of(node.args[0]) != "aten.sub.Tensor":
        return node, 1.0
    return node.args[0], by if name == "aten.mul.Tensor" else 1 / by


def _scale_first(powers: Any) -> None:
    """Multiplies the scores by the number before their maximum is taken, as attention's kernels do."""
    difference, by = _factor(powers.args[0])
    if difference is powers.args[0]:
        return
    last, x = powers.args[0], difference.args[0]
    if target_of(x) == "aten.mul.Tensor" and isinstance(x.args[1], (int, float)):
        x.args = (x.args[0], x.args[1] * by)
    else:
        with x.graph.inserting_after(x):
            scaled = add_call(x.graph, torch.ops.aten.mul.Tensor, x, by)
        for reader in (difference, difference.args[1]):
            reader.replace_input_with(x, scaled)
        x = scaled
    last.replace_all_uses_with(difference)
    last.graph.erase_node(last)
    for node in (x, difference, difference.args[1]):  # their values have changed
        node.meta.pop(WAS, None)


def _straighten(node: Any, scores: Any) -> None:
    """Makes views that follow each other one, from what `node` reads down to `scores`: einsum moves axes of 1 around its products."""
    waiting, seen = [node.args[0]], {scores}
    while waiting:
        at = waiting.pop()
        if at in seen or at.op != "call_function" or at.meta["val"].numel() != scores.meta["val"].numel():
            continue
        seen.add(at)
        if target_of(at).startswith(_RESHAPES):
            unread, below = at.args[0], _below(at.args[0], _MOVES)
            at.replace_input_with(unread, below)
            while unread is not below:
                unread, gone = unread.args[0], unread
                gone.graph.erase_node(gone)
        waiting.extend(at.all_input_nodes)


def _drop_ones(operand: Any) -> None:
    """Makes an operand move the axes of its value directly, without the axes of 1 that einsum puts between them."""
    moved, x = [], operand
    while target_of(x).startswith("aten.reshape.") if x is operand else target_of(x) in _PERMUTED and len(x.users) == 1:
        moved.append(x)
        x = x.args[0]
    if not any(target_of(node) == "aten.unsqueeze.default" for node in moved):
        return
    axes = list(range(len(x.meta["val"].shape)))
    for node in reversed(moved[1:]):
        if target_of(node) == "aten.unsqueeze.default":
            axes.insert(node.args[1] % (len(axes) + 1), -1)
        elif target_of(node) == "aten.permute.default":
            axes = [axes[axis] for axis in node.args[1]]
    order = [axis for axis in axes if axis >= 0]
    with operand.graph.inserting_before(operand):
        laid = x if order == sorted(order) else add_call(operand.graph, torch.ops.aten.permute.default, x, order)
    operand.replace_input_with(moved[1], laid)
    for node in moved[1:]:
        node.graph.erase_node(node)


def _reorders(node: Any) -> bool:
    """Whether a node changes the order of axes of more than one element."""
    if not target_of(node).startswith("aten.permute."):
        return False
    sizes = node.args[0].meta["val"].shape
    wide = [axis for axis in (axis % len(sizes) for axis in node.args[1]) if sizes[axis] != 1]
    return wide != sorted(wide)


def _below(node: Any, names: Any) -> Any:
    while target_of(node).startswith(names) and len(node.users) == 1 and not _reorders(node):
        node = node.args[0]
    return node


def _reduces(node: Any, name: str, of: Any) -> bool:
    """Whether a node reduces the last axis of `of`, and keeps it with extent 1."""
    if target_of(node) != name or node.args[0] is not of:
        return False
    return node.args[1] in ([-1], [len(of.meta["val"].shape) - 1]) and bool(node.args[2:3] and node.args[2])
