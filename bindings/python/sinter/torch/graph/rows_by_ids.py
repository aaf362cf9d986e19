"""Rewrites rows of a matrix by ids, `x[ids]` and `index_select`, as rows of a table, which a chain gathers.

A negative id counts from the end there, but a gather returns zeros for it. So Inductor first adds the extent to such ids, in one small kernel,
unless no id can be negative.
"""

from __future__ import annotations

from typing import Any, Dict, Set, Tuple

import torch

from ..convert.arrays import DTYPES
from ..convert.converter import CAST, filled, target_of
from ..convert.op_table import is_view
from .nodes import add_call, results

#: Key in a node's ``meta``: it holds ids that a small kernel makes only for their reader.
IDS_MADE = "sinter_ids"
_INTEGERS = (torch.int64, torch.int32)
_PLACES = ("aten.topk.default", "aten.sort.default", "aten.sort.stable", "aten.max.dim", "aten.min.dim")
_SAME = ("aten.clone.default", "aten.cat.default", CAST)


def rows_as_gathers(graph: torch.fx.Graph, positions: bool = False) -> None:
    """Rewrites rows by ids as an embedding, which Inductor compiles to the same code. `positions`: ids that are inputs of the graph are never
    negative."""
    taking = [node for node in graph.nodes if _takes_rows(node)]
    made: Dict[Tuple[Any, int], Any] = {}
    never_negative = _never_negative(graph) if taking else set()
    never_negative.update(node for node in graph.nodes if positions and node.op == "placeholder")
    for node in taking:
        x, ids = node.args[0], node.args[1][0]
        with graph.inserting_before(node):
            if ids not in never_negative:
                ids = _from_zero(graph, ids, x.meta["val"].shape[0], made)
            rows = graph.call_function(torch.ops.aten.embedding.default, (x, ids))
        rows.meta.update(node.meta)
        node.replace_all_uses_with(rows)
        graph.erase_node(node)


def _takes_rows(node: Any) -> bool:
    """Whether a node is `x[ids]` of a matrix with a known number of rows."""
    if target_of(node) != "aten.index.Tensor" or len(node.args[1]) != 1:
        return False
    if node.args[1][0] is None:
        return False
    val, ids = node.args[0].meta["val"], node.args[1][0].meta["val"]
    rows = val.shape[0] if len(val.shape) == 2 else None
    return isinstance(rows, int) and rows > 0 and str(val.dtype) in DTYPES and ids.dtype in _INTEGERS and ids.device == val.device


def _from_zero(graph: torch.fx.Graph, ids: Any, rows: int, made: Dict[Tuple[Any, int], Any]) -> Any:
    if (ids, rows) not in made:
        aten = torch.ops.aten
        negative, wrapped = add_call(graph, aten.lt.Scalar, ids, 0), add_call(graph, aten.add.Tensor, ids, rows)
        made[ids, rows] = add_call(graph, aten.where.self, negative, wrapped, ids)
        made[ids, rows].meta[IDS_MADE] = True
    return made[ids, rows]


def _never_negative(graph: torch.fx.Graph) -> Set[Any]:
    """Nodes whose elements are integers and never negative, as far as the operators that made them show it."""
    found: Set[Any] = set()
    for node in graph.nodes:
        if _is_never_negative(node, found):
            found.add(node)
    return found


def _is_never_negative(node: Any, found: Set[Any]) -> bool:
    """Whether a node's elements are never negative. `found`: the earlier nodes with that property."""

    def known(value: Any) -> bool:
        return value >= 0 if isinstance(value, (int, float)) else value in found

    name = target_of(node)
    if name == "prims.iota.default":
        start, step = (node.kwargs.get(key) for key in ("start", "step"))
        return isinstance(start, int) and isinstance(step, int) and start >= 0 and step >= 0
    if name == "getitem":
        return target_of(node.args[0]) in _PLACES and node.args[1] == 1
    if name in ("aten.argmax.default", "aten.argmin.default"):
        return True
    if name in ("aten.remainder.Scalar", "aten.clamp_min.default"):
        return known(node.args[1])
    if name in ("aten.floor_divide.default", "aten.div.Tensor_mode"):
        divisor = node.args[1]
        return isinstance(divisor, int) and divisor > 0 and known(node.args[0])
    if name in ("aten.add.Tensor", "aten.mul.Tensor"):
        return _of_integers(node) and not node.kwargs and all(map(known, node.args))
    if filled(node) is not None:
        return float(filled(node) or 0) >= 0
    if name in _SAME or is_view(node):
        return _of_integers(node) and all(known(i) for i in node.all_input_nodes if results([i]))  # other operands are extents
    return False


def _of_integers(node: Any) -> bool:
    return all(val.dtype in _INTEGERS for val in results([node, *node.all_input_nodes]))
