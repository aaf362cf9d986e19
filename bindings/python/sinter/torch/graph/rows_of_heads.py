"""Rewrites values that have a row for each head of each token: they keep tokens and heads as two axes.

A part has one M. A gated norm of a hybrid decoder computes on [32 * tokens, 128], and the GEMM after it on [tokens, 4096]. With [tokens, 32, 128]
both are in one part.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch

from ..convert.arrays import extent
from ..convert.converter import target_of
from .nodes import add_again, add_call, erase_unread, is_elementwise

_VIEWS = ("aten.reshape.default", "aten.view.default")
_OF_LAST_AXIS = ("vllm_ir.rms_norm.default",)
_REDUCTIONS = ("aten.mean.dim", "aten.sum.dim_IntList", "aten.amax.default", "aten.amin.default")


def rows_of_heads(graph: torch.fx.Graph) -> None:
    """Rewrites each view of heads * tokens rows as tokens, and the ops that compute it, as far as they work on separate rows."""
    made: Dict[Any, Any] = {}
    for node in list(graph.nodes):
        tokens, heads = _tokens(node), 0
        if tokens is not None:
            heads = _heads(node.args[0], tokens)
        if heads < 2:
            continue
        source = _split(graph, node.args[0], tokens, heads, made)
        if source is not None:
            with graph.inserting_before(node):
                view = add_call(graph, torch.ops.aten.reshape.default, source, node.args[1])
            node.replace_all_uses_with(view)
            erase_unread(graph, node)
    for node in made.values():
        if node is not None and not node._erased:
            erase_unread(graph, node)


def _tokens(node: Any) -> Any:
    """The symbolic number of rows of a view; None for any other node."""
    if target_of(node) not in _VIEWS or not node.meta["val"].shape:
        return None
    rows = extent(node.meta["val"].shape[0])
    return None if isinstance(rows, int) else rows


def _heads(node: Any, tokens: Any) -> int:
    """How many times `tokens` rows a value has; 0 if the number is not known."""
    val = node.meta.get("val")
    if not isinstance(val, torch.Tensor) or val.dim() < 2 or isinstance(extent(val.shape[0]), int):
        return 0
    heads = extent(val.shape[0]) / tokens
    return int(heads) if heads.is_Integer else 0


def _split(graph: torch.fx.Graph, node: Any, tokens: Any, heads: int, made: Dict[Any, Any]) -> Optional[Any]:
    """The value of `node` with tokens and heads as two axes, inserted after it; None if an op joins its rows. `made`: such values of other nodes."""
    if node in made:
        return made[node]
    made[node] = None
    val = node.meta["val"]
    if target_of(node) in _VIEWS and _heads(node.args[0], tokens) == 1:
        with graph.inserting_after(node):
            made[node] = add_call(graph, torch.ops.aten.reshape.default, node.args[0], [-1, heads, *val.shape[1:]])
        return made[node]
    if not is_elementwise(node) and target_of(node) not in _OF_LAST_AXIS and not _reduces_last(node):
        return None
    operands: Dict[Any, Any] = {}
    for i in node.all_input_nodes:
        own = i.meta.get("val")
        whole = isinstance(own, torch.Tensor) and own.dim() == val.dim() and own.shape[0] == val.shape[0]
        if not whole and (not isinstance(own, torch.Tensor) or own.dim() >= val.dim()):
            return None
        operands[i] = _split(graph, i, tokens, heads, made) if whole else i
    if None in operands.values() or operands == {i: i for i in operands}:
        return None
    with graph.inserting_after(node):
        made[node] = add_again(graph, node, operands.__getitem__)
    return made[node]


def _reduces_last(node: Any) -> bool:
    """Whether a node reduces only its last axis, which stays with extent 1."""
    return target_of(node) in _REDUCTIONS and len(node.args) > 2 and list(node.args[1] or ()) == [-1] and bool(node.args[2])
