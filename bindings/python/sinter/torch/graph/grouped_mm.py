"""Replaces mixtures of experts, as transformers' ``grouped_mm`` writes them in graphs, by one operator.

The pattern is: slots sorted by experts, two grouped products with an activation and a gate between them, weights, slots in their original
order, and the sum over a row's slots. It becomes ``sinter.experts``. Every node is compared with the pattern. Nodes that differ, or that other
nodes also read, stay as they are. Some versions, and layers whose experts are on several GPUs, write zeros for rows whose ids name no expert
here; the operator does the same.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from ..convert.converter import CAST, RESHAPES, argument, target_of
from ..runtime.experts import MOST_TOP, reason_against_experts
from .nodes import erase_unread

_F32 = torch.float32


class _Other(Exception):
    """The graph does not match the pattern."""


def experts_as_operators(graph: torch.fx.Graph, device: str) -> int:
    """Replaces experts by operators, and returns their number. `device`: the device type of the nodes that are captured."""
    made = 0
    for node in list(graph.nodes):
        if target_of(node) != "aten.sum.dim_IntList" or node._erased:
            continue
        try:
            x, ids, weights, w1, w2 = _operands(node)
        except _Other:
            continue
        if node.meta["val"].device.type != device:
            continue
        with graph.inserting_before(node):
            call = graph.call_function(torch.ops.sinter.experts.default, (x, ids, weights, w1, w2, "silu", "oi", False))
        call.meta.update(node.meta)
        node.replace_all_uses_with(call)
        erase_unread(graph, node)
        made += 1
    return made


def _operands(total: Any) -> Tuple[Any, Any, Any, Any, Any]:
    """Rows, ids, weights and both matrices of the experts whose result is `total`.

    Raises:
        _Other: if `total` is not such a result.
    """
    slots = _of(total.args[0], *RESHAPES)
    need(list(total.args[1] or ()) == [1] and not any(total.args[2:]) and not total.kwargs)
    rows, top, l = slots.meta["val"].shape if len(slots.meta["val"].shape) == 3 else (0, 0, 0)
    need(isinstance(top, int) and 1 <= top <= MOST_TOP)
    # Slots in their original order: weighted[back], back[order] = 0, 1, 2, ..
    weighted, back = _index(slots.args[0])
    put = _of(back, "aten.index_put.default", "aten.index_put_.default")
    _of(put.args[0], "aten.empty.memory_format", "aten.empty_like.default", "aten.full.default")
    places = _of(put.args[2], "prims.iota.default")
    need(len(put.args) == 3 or not put.args[3])
    need(len(put.args[1]) == 1 and places.kwargs.get("start") == 0 and places.kwargs.get("step") == 1)
    order = put.args[1][0]
    need(_same(places.args[0], back.meta["val"].shape[0]) and _same(back.meta["val"].shape[0], weighted.meta["val"].shape[0]))
    # down[slot] * weights[order]
    product = _of(weighted, "aten.mul.Tensor")
    masks: List[Any] = []  # masks of rows whose ids name no expert
    down, factor = _of(_unmasked(product.args[0], masks), "aten._grouped_mm.default"), product.args[1]
    factor = _of(factor, "aten.unsqueeze.default")
    need(factor.args[1] in (-1, 1))
    flat, by = _index(factor.args[0])
    need(by is order)
    weights = _flat(flat, rows, top)
    # order, sorted = sort of the ids
    order_of = _of(order, "getitem")
    sorting = _of(order_of.args[0], "aten.sort.default", "aten.sort.stable")
    need(order_of.args[1] == 1 and not (sorting.args[2:] if target_of(sorting) == "aten.sort.default" else ()))
    need(len(sorting.args) == 1 or sorting.args[1] in (0, -1))
    need(not sorting.kwargs.get("descending", False) and sorting.kwargs.get("dim", -1) in (0, -1))
    ids = _flat(sorting.args[0], rows, top)
    # c = silu(gate) * up of gate above up
    inner, w2, ends = _grouped(down)
    both, n = _gated(inner)
    a, w1, ends_before = _grouped(_unmasked(both, masks))
    need(ends is ends_before)
    # a = x[order // top]
    x, row = _index(_unmasked(a, masks))
    divided = _of(row, "aten.div.Tensor_mode", "aten.floor_divide.default")
    need(divided.args[0] is order and divided.args[1] == top)
    need(target_of(divided) == "aten.floor_divide.default" or divided.kwargs.get("rounding_mode") == "floor")
    experts = w1.meta["val"].shape[0]
    _ends(ends, sorting, experts)
    for mask in masks:
        none = _of(_of(mask, "aten.unsqueeze.default").args[0], "aten.ge.Scalar")
        need(mask.args[1] in (-1, 1) and _of(none.args[0], "getitem").args == (sorting, 0) and none.args[1] == experts)
    val = x.meta["val"]
    need(len(val.shape) == 2 and _same(val.shape[0], rows) and val.dtype == w1.meta["val"].dtype)
    need(not reason_against_experts(w1.meta["val"], w2.meta["val"]))
    need(ids.meta["val"].dtype in (torch.int32, torch.int64))
    need(all(one.meta["val"].device == val.device for one in (ids, weights, w1, w2)))
    # Nodes that other nodes also read, as in a backward graph, are computed anyway.
    need(all(len(one.users) == 1 for one in (slots, weighted, product, down, inner, a)) and len(both.users) <= 2)
    need(w1.meta["val"].shape == (experts, 2 * n, val.shape[1]) and w2.meta["val"].shape == (experts, l, n))
    need(total.meta["val"].dtype == val.dtype and weights.meta["val"].dtype in (val.dtype, _F32))
    return x, ids, weights, w1, w2


def need(true: bool) -> None:
    if not true:
        raise _Other


def _of(node: Any, *targets: str) -> Any:
    need(isinstance(node, torch.fx.Node) and target_of(node) in targets)
    return node


def _same(one: Any, other: Any) -> bool:
    return str(getattr(one, "meta", {}).get("val", one)) == str(getattr(other, "meta", {}).get("val", other))


def _unmasked(node: Any, masks: List[Any]) -> Any:
    """The value that `node` masks with zeros; its mask is appended to `masks`. Any other node is returned as it is."""
    if target_of(node) != "aten.where.self":
        return node
    mask, zero, value = node.args
    zero = _of(zero, "aten.full.default", "aten.scalar_tensor.default")
    need(zero.args[-1] == 0 and len(zero.meta["val"].shape) == 0 and len(value.users) == 1)
    masks.append(mask)
    return value


def _index(node: Any) -> Tuple[Any, Any]:
    """x and ids of x[ids]."""
    found = _of(node, "aten.index.Tensor", "aten.embedding.default", "aten.index_select.default")
    if target_of(found) == "aten.index.Tensor":
        need(len(found.args[1]) == 1 and found.args[1][0] is not None)
        return found.args[0], found.args[1][0]
    if target_of(found) == "aten.index_select.default":
        need(found.args[1] == 0)
        return found.args[0], found.args[2]
    need(len(found.args) == 2)
    return found.args[0], found.args[1]


def _flat(node: Any, rows: Any, top: int) -> Any:
    """The [rows, top] value of which `node` is a view with one axis."""
    found = _of(node, *RESHAPES)
    val = found.args[0].meta["val"]
    need(len(found.meta["val"].shape) == 1 and len(val.shape) == 2 and _same(val.shape[0], rows) and val.shape[1] == top)
    return found.args[0]


def _grouped(node: Any) -> Tuple[Any, Any, Any]:
    """Rows, the matrices [experts, out, in] and ends of a grouped product that nothing but the next step reads."""
    product = _of(node, "aten._grouped_mm.default")
    need(len(product.args) + len(product.kwargs) >= 3 and set(product.kwargs) <= {"offs", "bias", "out_dtype"})
    more = [*product.args[3:], product.kwargs.get("bias"), product.kwargs.get("out_dtype")]
    need(all(value in (None, product.meta["val"].dtype) for value in more))
    turned = _of(product.args[1], "aten.permute.default", "aten.transpose.int")
    if target_of(turned) == "aten.permute.default":
        need([axis % 3 for axis in turned.args[1]] == [0, 2, 1])
    else:
        need({axis % 3 for axis in turned.args[1:]} == {1, 2})
    ends = product.args[2] if len(product.args) > 2 else product.kwargs["offs"]
    need(isinstance(ends, torch.fx.Node))
    return product.args[0], turned.args[0], ends


def _gated(node: Any) -> Tuple[Any, int]:
    """(both, n) of silu(both[:, :n]) * both[:, n:]."""
    product = _of(node, "aten.mul.Tensor")
    act, up = product.args
    if target_of(act) == "aten.silu.default":
        gate = act.args[0]
    else:
        narrow = _of(act, CAST)
        quotient = _of(narrow.args[0], "aten.div.Tensor")
        wide = _of(quotient.args[0], CAST)
        add = _of(quotient.args[1], "aten.add.Tensor")
        exp = _of(add.args[0], "aten.exp.default")
        need(add.args[1] == 1 and not add.kwargs and _of(exp.args[0], "aten.neg.default").args[0] is wide)
        need(narrow.meta["val"].dtype == wide.args[0].meta["val"].dtype and wide.meta["val"].dtype == _F32)
        gate = wide.args[0]
    first, second = _half(gate), _half(up)
    need(first is not None and second is not None and first[0] is second[0] and first[1:] == (0, second[2]) and second[1] == second[2])
    assert first is not None
    need(first[0].meta["val"].shape[1] == 2 * first[2])
    return first[0], first[2]


def _half(node: Any) -> Optional[Tuple[Any, int, int]]:
    """(value, first column, columns) of a range of columns of a value."""
    name = target_of(node)
    if name == "getitem" and target_of(node.args[0]) in ("aten.split.Tensor", "aten.split_with_sizes.default"):
        split, at = node.args
        columns = node.meta["val"].shape[1]
        axis = argument(split, 2, "dim", 0)
        return (split.args[0], at * columns, columns) if axis in (1, -1) else None
    if name == "aten.slice.Tensor" and len(node.args) in (3, 4) and node.args[1] in (1, -1):
        return node.args[0], node.args[2] or 0, node.meta["val"].shape[1]
    return None


def _ends(node: Any, sorting: Any, experts: int) -> None:
    """Running sums of a histogram of the sorted ids, one bin an expert."""
    sums = _of(node, "aten.cumsum.default")
    need(sums.args[1] == 0)
    bins = sums.args[0]
    if target_of(bins) == CAST:
        bins = bins.args[0]
    counts = _of(bins, "aten.histc.default")
    values: Dict[str, Any] = dict(zip(("bins", "min", "max"), counts.args[1:]), **counts.kwargs)
    need(values == {"bins": experts, "min": 0, "max": experts - 1})
    counted = counts.args[0]
    if target_of(counted) == CAST:
        need(counted.meta["val"].dtype in (_F32, torch.int32))
        counted = counted.args[0]
    found = _of(counted, "getitem")
    need(found.args[0] is sorting and found.args[1] == 0)
