"""Attention that a model spells with products and a softmax, where Inductor has not made it PyTorch's own operator: found, so that its products
are taken. The library finds it again in the chain (src/attention)."""

from __future__ import annotations

from typing import Any, Iterable, Optional

from ._attention import MOST_HEAD
from ._convert import PLACE, target_of

_PRODUCT = "aten.bmm.default"
_VIEWS = ("aten.view.", "aten.reshape.", "aten._unsafe_view.", "aten.expand.", "aten.clone.", "prims.convert_element_type.")
_STEPS = (*_VIEWS, "aten.mul.", "aten.div.", "aten.add.", "aten.where.")
_MOST_STEPS = 24


def tell_products(nodes: Iterable[Any]) -> None:
    """Notes at products of attention which of the two they are."""
    for node in nodes:
        scores = _scores_of(node) if target_of(node) == _PRODUCT else None
        if scores is not None and _fits(scores, node):
            node.meta[PLACE], scores.meta[PLACE] = 2, 1


def _fits(scores: Any, product: Any) -> bool:
    """Whether a kernel takes extents: all are numbers, and columns of a head a multiple of 8 up to the most."""
    sizes = [size for node in (scores, product) for i in (node, *node.args[:2]) for size in i.meta["val"].shape]
    heads = (scores.args[0].meta["val"].shape[2], product.meta["val"].shape[2])
    return all(isinstance(size, int) for size in sizes) and all(head % 8 == 0 and 8 <= head <= MOST_HEAD for head in heads)


def _scores_of(product: Any) -> Optional[Any]:
    """The product of q and k, of that of probabilities and v. Nobody else reads what lies between."""
    quotient = _below(product.args[0], _VIEWS)
    if target_of(quotient) != "aten.div.Tensor":
        return None
    powers, total = quotient.args[:2]
    if target_of(powers) != "aten.exp.default" or len(powers.users) != 2 or not _reduces(total, "aten.sum.dim_IntList", powers):
        return None
    difference = powers.args[0]
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
        if target_of(node).startswith(_STEPS):
            waiting.extend(i for i in node.all_input_nodes if i.meta["val"].numel() == shape.numel())
    return None


def _below(node: Any, names: Any) -> Any:
    while target_of(node).startswith(names) and len(node.users) == 1:
        node = node.args[0]
    return node


def _reduces(node: Any, name: str, of: Any) -> bool:
    """Whether it is a reduction of the last axis of `of`, which it keeps."""
    if target_of(node) != name or node.args[0] is not of:
        return False
    return node.args[1] in ([-1], [len(of.meta["val"].shape) - 1]) and bool(node.args[2:3] and node.args[2])
