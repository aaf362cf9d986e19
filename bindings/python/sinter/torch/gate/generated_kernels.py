"""Estimates the time of the kernels that Inductor generates: element-wise ops, reductions, copies."""

from __future__ import annotations

import math
from typing import Any, Container, Dict, Iterable, List, Sequence, Set

from ..convert.aten import TABLE, reduced_axes
from ..convert.converter import filled, target_of
from ..convert.foreach import is_list
from ..convert.walks import reached
from .library_kernels import MEMORY_SHARE, MEMORY_START_US
from .sizes import Hint, bytes_of, count_of, hinted, sizes_of

#: Kernels on lists of tensors, as optimisers use them: the most values that one kernel names, by Inductor's configuration, and the share of the
#: memory's rate that they reach, relative to predicted plans. Measured on an H200: AdamW of 60 tensors takes 284 us in 19 kernels of Inductor, and
#: 240 us by the plan (predicted: 253 us).
_LIST_VALUES = 250
_LIST_SHARE = 0.81
#: Substrings that mark names of reductions.
_REDUCTIONS = ("aten.sum.", "aten.mean.", "aten.amax.", "aten.amin.", "aten.var_mean.", "aten.var.", "aten.any.")

#: A sum over rows: each thread of the kernel sums so many rows. If there are fewer columns than so many for each multiprocessor, more threads share
#: the rows, and another kernel joins their sums.
_THREAD_ROWS = 128
_SPLIT_COLUMNS = 64
#: Sums over all rows that are spread over those rows again, as in the backward pass of a batch norm: the share of the memory's rate that the
#: kernels of these sums reach, and the time that they take in addition to other kernels. Fitted to seven batch norms' gradients of ResNet-50 on an
#: H200; off by at most 6 %, except for 1,568 rows, by 15 %. The rows are not in a cache: most of them were written much earlier in the step.
_SUM_SHARE = 0.63
_SUM_START_US = 3.0

#: The time that Inductor's kernels of a softmax or a variance add to the memory's time if a row is too long for a block to keep: picoseconds
#: for each element with all of 132 multiprocessors, and nanoseconds for each element of a row. A variance over several axes takes that at any
#: length, and a separate kernel. Fitted to 18 such kernels of tests/bench/torch_backend/gate-h200.jsonl: 0.7 to 1.5 times the estimate.
_KEPT_ROW = 1024
_LONG_ROW_PS, _LONG_ROW_NS = 2.0, 0.3



def border_bytes(nodes: Iterable[Any], hint: Hint) -> int:
    """Bytes that enter and leave a part, each value once."""
    inside = set(nodes)
    outside = {i for node in inside for i in node.all_input_nodes if i not in inside and filled(i) is None}
    leaving = [node for node in inside if any(user not in inside for user in node.users)]
    return sum(bytes_of(node, hint) for node in leaving) + sum(entering_bytes(node, inside, hint) for node in outside)


def entering_bytes(node: Any, inside: Set[Any], hint: Hint) -> int:
    """Bytes that a part reads of a value: of a table only the gathered rows, if nothing in the part reads it otherwise."""
    readers = [user for user in node.users if user in inside]
    if all(TABLE[target_of(user)].rows_by and user.args[0] is node for user in readers):
        return min(bytes_of(node, hint), sum(bytes_of(user, hint) for user in readers))
    return bytes_of(node, hint)


def memory_us(moved: float, figures: Dict[str, float]) -> float:
    cached = moved <= figures["l2_kept_share"] * figures["l2_bytes"]
    return moved / (MEMORY_SHARE * figures["l2_bytes_per_us" if cached else "hbm_bytes_per_us"]) + MEMORY_START_US


def memory_groups(nodes: Sequence[Any]) -> List[List[Any]]:
    """Nodes that are not products, grouped into kernels, each in order: connected nodes with the same number of products ahead of them. A product's
    result does not join two groups that read it. No kernel spans a product, or computes a pooling together with an image made of several tensors."""
    ahead: Dict[Any, int] = {}
    for node in nodes:
        before = max((ahead[i] + TABLE[target_of(i)].product for i in node.all_input_nodes if i in ahead), default=0)
        ahead[node] = before + _stores_first(node, ahead)
    for node in reversed(nodes):  # an elementwise op is computed in the kernel that reads it first
        if not TABLE[target_of(node)].product and _reduced_axes(node) is None and all(user in ahead for user in node.users):
            ahead[node] = max(ahead[node], min((ahead[user] - _stores_first(user, ahead) for user in node.users), default=0))
    left: Set[Any] = {node for node in nodes if not TABLE[target_of(node)].product}
    groups, place = [], {node: i for i, node in enumerate(nodes)}
    for node in nodes:
        if node in left:
            group = reached([node], lambda at: [i for i in (*at.all_input_nodes, *at.users) if i in left and ahead[i] == ahead[node]])
            left.difference_update(group)
            groups.append(sorted(group, key=place.__getitem__))
    return groups


def _stores_first(node: Any, inside: Container[Any]) -> bool:
    """Whether a node is a pooling whose image Inductor stores first: else each pixel would be computed once for each window."""
    if "pool" not in target_of(node):
        return False
    image = node.args[0]
    while image in inside and not TABLE[target_of(image)].product:
        operands = [i for i in image.all_input_nodes if filled(i) is None]
        if len(operands) != 1:
            return True
        image = operands[0]
    return False



def copies(node: Any) -> bool:
    """Whether a node copies its value to another memory order."""
    if target_of(node) not in ("aten.clone.default", "prims.inductor_force_stride_order.default"):
        return False
    return bool(node.meta["val"].stride() != node.args[0].meta["val"].stride())


def lists_us(group: Sequence[Any], figures: Dict[str, float], hint: Hint) -> float:
    """Kernels on lists, each of which computes some tensors completely. A kernel names their inputs and outputs, and every value between."""
    moved = border_bytes(group, hint)
    inside = set(group)
    read = {i for node in group for i in node.all_input_nodes if i not in inside}
    written = [node for node in group if any(user not in inside for user in node.users)]
    values = len(read) + len(written) + sum(len(node.meta["val"]) for node in group if is_list(node))
    streamed = (memory_us(moved, figures) - MEMORY_START_US) * MEMORY_SHARE / _LIST_SHARE
    return streamed + MEMORY_START_US * math.ceil(values / _LIST_VALUES)


def group_us(group: Sequence[Any], figures: Dict[str, float], hint: Hint) -> float:
    """One kernel that reads and writes the group's border once. Sums over rows need more kernels, which read the summed values once more: one for
    all sums with the same number of sums ahead of them. With many rows and few columns, another kernel joins the partial sums of its blocks."""
    sums = [node for node in group if _sums_rows(node, hint)]
    if not sums:
        return memory_us(border_bytes(group, hint), figures) + _long_rows_us(group, figures, hint)
    if _spreads_sums(group, hint):
        return _spread_us(group, sums, figures, hint)
    inside = set(group)
    before: Dict[Any, int] = {}
    for node in group:
        before[node] = max((before[i] + (i in sums) for i in node.all_input_nodes if i in before), default=0)
    total = 0.0
    for level in {before[node] for node in sums}:
        level_sums = [node for node in sums if before[node] == level]
        joined = any(_sums_apart(node, figures, hint) for node in level_sums)
        total += memory_us(_summed_bytes(level_sums, inside, hint), figures) + (MEMORY_START_US if joined else 0)
    most = max(bytes_of(node, hint) for node in (*group, *(node.args[0] for node in sums)))
    leaving = [node for node in group if any(user not in inside for user in node.users)]
    others = any(bytes_of(node, hint) * 16 > most for node in leaving if node not in sums)
    if others or any(_reduced_axes(node) is not None for node in group if node not in sums):
        total += memory_us(border_bytes(group, hint), figures)
    return total


def _spreads_sums(group: Sequence[Any], hint: Hint) -> bool:
    """Whether sums over all rows, of columns that are adjacent in memory, are combined in the group with values of those rows again."""
    behind: Set[Any] = set()
    rows = 0
    for node in group:
        if any(i in behind for i in node.all_input_nodes):
            behind.add(node)
            if _reduced_axes(node) is None and bytes_of(node, hint) * 16 > rows:
                return True
        elif _sums_rows(node, hint, all_of=True):
            behind.add(node)
            rows = max(rows, bytes_of(node.args[0], hint))
    return False


def _spread_us(group: Sequence[Any], sums: Sequence[Any], figures: Dict[str, float], hint: Hint) -> float:
    """A kernel that sums the rows and stores the outputs made of them, one that joins its blocks' sums, and one that reads the stored values."""
    inside = set(group)
    leaving = {node for node in group if any(user not in inside for user in node.users)}
    rows = _made_of([node.args[0] for node in sums], inside.difference(sums))
    stored = rows & leaving
    others = leaving - stored - set(sums)
    again = _made_of(others, inside.difference(sums, stored))

    def total_bytes(nodes: Iterable[Any]) -> int:
        return sum(bytes_of(node, hint) for node in nodes if filled(node) is None)

    first = total_bytes(rows - inside) + total_bytes(stored)
    second = total_bytes(again - inside.difference(sums, stored)) + total_bytes(others)
    rate = figures["hbm_bytes_per_us"]
    return first / (_SUM_SHARE * rate) + second / (MEMORY_SHARE * rate) + 3 * MEMORY_START_US + _SUM_START_US


def _made_of(ends: Iterable[Any], through: Container[Any]) -> Set[Any]:
    """`ends` and the nodes that they are computed from, following only nodes of `through`."""
    return set(reached(ends, lambda node: node.all_input_nodes if node in through else ()))


def _summed_bytes(sums: Sequence[Any], inside: Set[Any], hint: Hint) -> int:
    """Bytes that a kernel of sums moves: the stored values that its operands are computed from, and the sums. Results of other reductions and values
    that enter or leave the group are stored."""

    def is_stored(node: Any) -> bool:
        return node not in inside or _reduced_axes(node) is not None or any(user not in inside for user in node.users)

    read = reached([node.args[0] for node in sums], lambda node: () if filled(node) is not None or is_stored(node) else node.all_input_nodes)
    stored = [node for node in read if filled(node) is None and is_stored(node)]
    return sum(bytes_of(node, hint) for node in (*stored, *sums))


def _long_rows_us(group: Sequence[Any], figures: Dict[str, float], hint: Hint) -> float:
    """The time that a softmax or a variance of rows adds to the memory's time."""
    sums = any("aten.sum." in target_of(node) for node in group)
    most = 0.0
    for node in group:
        axes, name = _reduced_axes(node), target_of(node)
        if axes is None or not ("aten.var" in name or sums and "aten.amax." in name):
            continue
        sizes = sizes_of(node.args[0].meta["val"], hint) or [1]  # a tensor without axes also accepts axes 0 and -1
        length = math.prod(sizes[axis] for axis in axes)
        several = "aten.var" in name and len(axes) > 1
        if length > _KEPT_ROW or several:
            walked = max(math.prod(sizes) * _LONG_ROW_PS * 1e-6 * 132 / figures["sm_count"], length * _LONG_ROW_NS * 1e-3)
            most = max(most, walked + (MEMORY_START_US if several else 0))
    return most


def _reduced_axes(node: Any) -> "List[int] | None":
    """The axes that a reduction reduces; None for any other node, and for a reduction over no axis."""
    name = target_of(node)
    if name not in TABLE or not any(word in name for word in _REDUCTIONS):
        return None
    rank = len(node.args[0].meta["val"].shape)
    return [axis % max(rank, 1) for axis in reduced_axes(node)] or None


def _sums_rows(node: Any, hint: Hint, all_of: bool = False) -> bool:
    """Whether a reduction reduces an axis that is slower in memory than one that it keeps, as a bias's gradient does. `all_of`: all
    reduced axes must be slower than all kept ones."""
    axes = _reduced_axes(node)
    if axes is None:
        return False
    val = node.args[0].meta["val"]
    steps = hinted(val.stride(), hint)
    wide = [axis for axis, size in enumerate(sizes_of(val, hint)) if size != 1]
    kept = [steps[axis] for axis in wide if axis not in axes]
    reduced = [steps[axis] for axis in wide if axis in axes]
    return bool(kept) and bool(reduced) and (min(reduced) > max(kept) if all_of else max(reduced) > min(kept))


def _sums_apart(node: Any, figures: Dict[str, float], hint: Hint) -> bool:
    """Whether several blocks share the rows of each column in a reduction over rows."""
    val = node.meta["val"]
    columns = count_of(val[0] if isinstance(val, (list, tuple)) else val, hint)
    rows = count_of(node.args[0].meta["val"], hint) // max(columns, 1)
    return bool(rows > _THREAD_ROWS and columns < _SPLIT_COLUMNS * figures["sm_count"])
