"""Joins sums over the steps of a loop, such as a weight's gradient: one product or sum of the rows of all steps replaces one for each step."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import torch

from ..convert.converter import CAST, filled, target_of
from .nodes import add_call, as_extents, as_type, erase_unread

#: The least number of steps, and the most rows of a step: a product of more rows takes much longer than its start.
_LEAST_STEPS, _MOST_ROWS = 4, 512

_ADD = "aten.add.Tensor"
_VIEWS = ("aten.reshape.default", "aten.view.default", "aten.squeeze.dim", "aten.squeeze.dims")


class _Term(NamedTuple):
    """One step's term of a sum.

    Attributes:
        node: the operand of the sum.
        core: the op whose value a cast and a view of it lead to.
        read: the values of the step from which it is computed.
        kind: terms of one kind become one.
    """

    node: Any
    core: Any
    read: Tuple[Any, ...]
    kind: Tuple[Any, ...]


def join_sums_over_steps(graph: torch.fx.Graph, device: str) -> int:
    """Replaces such sums of values on `device`, and returns their number.

    `sum_t g_t^T h_t` is one product of the rows of all steps, `sum_t sum_rows g_t` one sum of them, and a sum of steps that are each laid into
    zeros concatenates all steps. The total is rounded once; before, the term of each step was.
    """
    place = {node: i for i, node in enumerate(graph.nodes)}
    beside: Dict[Tuple[Any, ...], Any] = {}  # the concatenated rows of all steps, by the steps' rows
    found = 0
    for root in list(graph.nodes):
        if not _is_sum(root, device) or _reader_in_sum(root) is not None:
            continue
        terms = [_term(node) for node in sorted(_operands(root), key=place.__getitem__)]
        kinds: Dict[Any, List[_Term]] = {}
        for term in terms:
            kinds.setdefault(term.kind, []).append(term)
        joined = {kind: each for kind, each in kinds.items() if _are_steps(kind, each)}
        if not joined:
            continue
        found += 1
        with graph.inserting_before(root):
            values = [_joined(graph, each, beside) for each in joined.values()]
            values += [term.node for term in terms if term.kind not in joined]
            total = values[0]
            for value in values[1:]:
                total = add_call(graph, torch.ops.aten.add.Tensor, total, value)
        root.replace_all_uses_with(total)
        erase_unread(graph, root)
    return found


def _is_sum(node: Any, device: str) -> bool:
    val = node.meta.get("val")
    if target_of(node) != _ADD or node.kwargs or len(node.all_input_nodes) != 2 or not isinstance(val, torch.Tensor):
        return False
    plain = all(isinstance(size, int) for size in val.shape) and val.device.type == device
    return plain and all(_like(i, node) for i in node.all_input_nodes)


def _like(one: Any, other: Any) -> bool:
    a, b = one.meta["val"], other.meta["val"]
    return bool(a.shape == b.shape and a.dtype == b.dtype)


def _reader_in_sum(node: Any) -> Any:
    """The only reader of a sum, if it adds the sum to another value; else None."""
    (user, *others) = node.users or [None]
    return user if user is not None and not others and target_of(user) == _ADD and _is_sum(user, node.meta["val"].device.type) else None


def _operands(root: Any) -> List[Any]:
    """The operands of a tree of sums, each as often as the tree adds it."""
    found: List[Any] = []
    waiting = [root]
    while waiting:
        for node in waiting.pop().all_input_nodes:
            inner = target_of(node) == _ADD and _is_sum(node, root.meta["val"].device.type) and len(node.users) == 1
            (waiting if inner else found).append(node)
    return found


def _term(node: Any) -> _Term:
    core = node
    while target_of(core) in (CAST, *_VIEWS) and len(core.users) == 1:
        core = core.args[0]
    read, how = _steps_read(core)
    lies = [core.meta["val"].dtype, tuple(core.meta["val"].shape)] if isinstance(core.meta.get("val"), torch.Tensor) else []
    return _Term(node, core, read, (target_of(core), *how, *lies) if read else (node,))


def _steps_read(core: Any) -> Tuple[Tuple[Any, ...], Tuple[Any, ...]]:
    """The values of a step from which a term is computed, and a key that terms of a kind share. Both are empty if no step is recognised."""
    name = target_of(core)
    if len(core.users) != 1:
        return (), ()
    if name == "aten.mm.default" and _is_transposed(core.args[0]) and _few_rows(core.args[1]):
        return (core.args[0].args[0], core.args[1]), ()
    if name == "aten.sum.dim_IntList" and [*(core.args[1] or ())] == [0] and not core.kwargs and _few_rows(core.args[0]):
        return (core.args[0],), (len(core.args) > 2 and core.args[2], core.args[0].meta["val"].dtype)
    if name == "aten.select_scatter.default" and filled(core.args[0]) == 0:
        return (core.args[1],), (core.args[2],)
    return (), ()


def _is_transposed(node: Any) -> bool:
    return target_of(node) == "aten.permute.default" and [*node.args[1]] == [1, 0]


def _few_rows(node: Any) -> bool:
    val = node.meta["val"]
    return len(val.shape) == 2 and isinstance(val.shape[0], int) and val.shape[0] <= _MOST_ROWS


def _are_steps(kind: Sequence[Any], terms: Sequence[_Term]) -> bool:
    if len(terms) < _LEAST_STEPS or not terms[0].read:
        return False
    if kind[0] != "aten.select_scatter.default":
        return True
    val, axis = terms[0].core.meta["val"], terms[0].core.args[2]
    return sorted(term.core.args[3] % val.shape[axis] for term in terms) == list(range(val.shape[axis]))


def _joined(graph: torch.fx.Graph, terms: Sequence[_Term], beside: Dict[Tuple[Any, ...], Any]) -> Any:
    """The sum of the terms, with the strides of the first one."""
    first, aten = terms[0], torch.ops.aten
    name = target_of(first.core)
    if name == "aten.select_scatter.default":
        axis, steps = first.core.args[2], first.core.meta["val"].shape[first.core.args[2]]
        ordered = sorted(terms, key=lambda term: int(term.core.args[3] % steps))
        made = add_call(graph, aten.cat.default, [add_call(graph, aten.unsqueeze.default, term.read[0], axis) for term in ordered], axis)
    elif name == "aten.mm.default":
        left, right = (_rows_of_all(graph, [term.read[i] for term in terms], beside) for i in range(2))
        made = add_call(graph, aten.mm.default, add_call(graph, aten.permute.default, left, [1, 0]), right)
    else:
        made = add_call(graph, aten.sum.dim_IntList, _rows_of_all(graph, [term.read[0] for term in terms], beside), *first.core.args[1:])
    val = first.node.meta["val"]
    return as_type(graph, as_extents(graph, made, val.shape), val.dtype)


def _rows_of_all(graph: torch.fx.Graph, rows: Sequence[Any], beside: Dict[Tuple[Any, ...], Any]) -> Any:
    key = tuple(rows)
    if key not in beside:
        beside[key] = add_call(graph, torch.ops.aten.cat.default, [*rows], 0)
    return beside[key]
