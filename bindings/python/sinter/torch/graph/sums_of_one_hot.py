"""Rewrites sums along an axis of values that are equal there, or equal at all places except one: they are computed without reading the axis.

The gradient of a cross entropy with label smoothing sums such rows, one number for each class: ``c`` for every class, and ``c + w`` for the label's.
The sum of n of them is ``n c``, or ``(n - 1) c + (c + w)``. It is rounded fewer times than the sum that it replaces.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, Optional, Tuple

import torch

from ..convert.converter import filled, target_of
from .nodes import add_call, as_extents, erase_unread, is_elementwise

_VIEWS = ("aten.reshape.default", "aten.view.default", "aten.unsqueeze.default")


def sum_one_hots(graph: torch.fx.Graph, device: str) -> int:
    """Replaces such sums of f32 values on `device`, and returns their number. A label outside of the axis matches no place."""
    found = 0
    for root in list(graph.nodes):
        if not _is_sum(root, device):
            continue
        x, (axis,) = root.args[0], root.args[1]
        row = _Row(graph, axis % len(x.meta["val"].shape) - len(x.meta["val"].shape), x.meta["val"].shape[axis])
        if not row.is_known(x):
            continue
        found += 1
        with graph.inserting_before(root):
            total = as_extents(graph, row.total(x), root.meta["val"].shape)
        root.replace_all_uses_with(total)
        erase_unread(graph, root)
    return found


def _is_sum(node: Any, device: str) -> bool:
    if target_of(node) != "aten.sum.dim_IntList" or node.kwargs or len(node.args[1] or ()) != 1:
        return False
    x = node.args[0].meta["val"]
    plain = all(isinstance(size, int) for size in x.shape) and x.device.type == device
    return plain and x.dtype == torch.float32 and len(x.shape) > 0 and x.shape[node.args[1][0]] > 1


class _Row:
    """Values along one axis of `size` elements, as far as they are known. `axis` counts from the last, so operands of fewer axes also have it."""

    def __init__(self, graph: torch.fx.Graph, axis: int, size: int) -> None:
        self.graph, self.axis, self.size = graph, axis, size
        #: By node: whether its value is known, and the comparison of a label with the places that selects one, if there is one.
        self._known: Dict[Any, Tuple[bool, Any]] = {}
        self._made: Dict[Tuple[Any, bool], Any] = {}

    def is_known(self, node: Any) -> bool:
        """Whether a value is equal at all places, or at all but one."""
        return self._of(node)[0]

    def total(self, node: Any) -> Any:
        """The sum of a known value, with one element on the axis."""
        aten, add = torch.ops.aten, functools.partial(add_call, self.graph)
        base, choice = self._at(node, False), self._of(node)[1]
        total = add(aten.mul.Tensor, base, self.size)
        if choice is not None:
            label = self._at(self._label(choice), False)
            inside = add(aten.logical_and.default, add(aten.ge.Scalar, label, 0), add(aten.lt.Scalar, label, self.size))
            others = add(aten.mul.Tensor, base, self.size - 1)
            total = add(aten.where.self, inside, add(aten.add.Tensor, others, self._at(node, True)), total)
        shape = list(node.meta["val"].shape)
        shape[self.axis] = 1
        return total if list(total.meta["val"].shape) == shape else add(aten.expand.default, total, shape)

    def _of(self, node: Any) -> Tuple[bool, Any]:
        if node not in self._known:
            self._known[node] = (False, None)
            self._known[node] = self._found(node)
        return self._known[node]

    def _found(self, node: Any) -> Tuple[bool, Any]:
        if self._is_equal(node) or filled(node) is not None:
            return True, None
        if self._label(node) is not None:
            return True, node
        if target_of(node) != "aten.expand.default" and not is_elementwise(node):
            return False, None
        operands = [self._of(i) for i in node.all_input_nodes]
        choices = {choice for _, choice in operands if choice is not None}
        if not all(known for known, _ in operands) or len(choices) > 1:
            return False, None
        return True, next(iter(choices), None)

    def _is_equal(self, node: Any) -> bool:
        """Whether a value has no more than one element on the axis."""
        shape = node.meta["val"].shape if isinstance(node.meta.get("val"), torch.Tensor) else ()
        return len(shape) < -self.axis or shape[self.axis] == 1

    def _label(self, node: Any) -> Optional[Any]:
        """The label that a node compares with the places along the axis, one of which equals it; None for any other node."""
        if target_of(node) != "aten.eq.Tensor":
            return None
        for label, places in (node.args, node.args[::-1]):
            integer = not label.meta["val"].dtype.is_floating_point
            if integer and self._counts(places) and self._of(label) == (True, None):
                return label
        return None

    def _counts(self, node: Any) -> bool:
        """Whether a value is 0, 1, 2 and so on along the axis, the same for all other places."""
        shape = node.meta["val"].shape
        if len(shape) < -self.axis or shape[self.axis] != self.size:
            return False
        if target_of(node) == "aten.expand.default":
            return self._counts(node.args[0])
        while target_of(node) in _VIEWS and sum(size != 1 for size in node.meta["val"].shape) == 1:
            node = node.args[0]
        counted = target_of(node) == "prims.iota.default" and node.args == (self.size,)
        return counted and node.kwargs.get("start") == 0 and node.kwargs.get("step") == 1

    def _at(self, node: Any, chosen: bool) -> Any:
        """A known value where the label is, or elsewhere, with one element on the axis."""
        if not isinstance(node, torch.fx.Node) or self._is_equal(node):
            return node
        key = (node, chosen and self._of(node)[1] is not None)
        if key not in self._made:
            self._made[key] = self._make(node, chosen)
        return self._made[key]

    def _make(self, node: Any, chosen: bool) -> Any:
        aten = torch.ops.aten
        if filled(node) is not None:
            return add_call(self.graph, aten.slice.Tensor, node, self.axis, 0, 1)
        if self._label(node) is not None:
            label = self._at(self._label(node), False)
            return add_call(self.graph, aten.eq.Tensor if chosen else aten.ne.Tensor, label, label)
        arguments = list(torch.fx.node.map_arg(node.args, lambda i: self._at(i, chosen)))
        if target_of(node) == "aten.expand.default":
            arguments[1] = list(node.meta["val"].shape)
            arguments[1][self.axis] = 1
        return add_call(self.graph, node.target, *arguments, **node.kwargs)
