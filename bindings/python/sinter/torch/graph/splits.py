"""Rewrites parts of splits as slices."""

from __future__ import annotations

from typing import Any, Optional

import torch

from ..convert.converter import argument, target_of


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
        return torch.ops.aten.select.int, argument(parent, 1, "dim", 0), index
    if name not in ("aten.split.Tensor", "aten.split_with_sizes.default"):
        return None
    sizes: Any = parent.args[1]
    axis: Any = argument(parent, 2, "dim", 0)
    whole = parent.args[0].meta["val"].shape[axis]  # type: ignore[union-attr]
    if isinstance(sizes, int) and isinstance(whole, int):
        return torch.ops.aten.slice.Tensor, axis, index * sizes, min((index + 1) * sizes, whole)
    if isinstance(sizes, (list, tuple)) and all(isinstance(size, int) for size in sizes):
        return torch.ops.aten.slice.Tensor, axis, sum(sizes[:index]), sum(sizes[: index + 1])
    return None
