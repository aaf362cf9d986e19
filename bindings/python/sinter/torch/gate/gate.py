"""Decides whether a part is worth an operator: compares its plan's predicted time with the time of Inductor's kernels."""

from __future__ import annotations

import math
from typing import Any, Callable, Container, Dict, Iterable, List, Sequence, Set

from ..convert.aten import TABLE, reduced_axes
from ..convert.attention import call_of, is_attention, scores_of
from ..convert.converter import filled, target_of
from ..convert.foreach import is_list
from ..convert.windows import by_channel
from ..graph.rows_by_ids import IDS_MADE
from ..partition.supported import computes
from .library_kernels import MEMORY_SHARE, MEMORY_START_US, attention_us, flop_of, product_us
from .sizes import Hint, bytes_of, count_of, hinted, plain_hint, sizes_of

#: A part below both bounds costs little more than its launches: multiplications and additions of a product; bytes of memory-bound ops.
_LEAST_FLOP = 1 << 24
_LEAST_BYTES = 1 << 20
_LEAST_OPS = 3
#: A part below both bounds is worth a plan if Inductor launches so many kernels for it. A launch takes 2 us in a CUDA graph. Without a graph it
#: takes about 5 us of the processor, and a plan's operator about 25 us.
_LEAST_LAUNCHES = 6
#: The share of a library's estimated time that the plan of one product may be expected to take if it saves no other kernel. It rests on one case,
#: on an H100: 30 such products of a speech model. Each was predicted to take 5.0 us, with an estimate of 8.36 us for the library, and took 1.7 us
#: more than the library.
_LONE_SHARE = 0.8
#: The share of Inductor's estimated time that a plan may be expected to take on a chip whose model has a data sheet's figures: a gain of 1.3.
_UNMEASURED_SHARE = 1 / 1.3
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
#: How many times its prediction a plan of grouped products takes: at one row for each matrix, and the increase for each doubling. Measured on an
#: H200: from 1.10 at 3 rows for each matrix to 1.82 at 907.
_GROUPED_TIMES = (1.05, 0.1)
#: How many times its prediction a kernel of attention may take, by the operation on scores. A mask or a bias is read from memory for each score. The
#: prediction misses that if blocks share a multiprocessor, most for heads of up to 64 columns and more than 1,024 keys. Measured at 202 sizes on an
#: H200. Few rows stream keys, whose loads the prediction knows: at 181 sizes nine of ten were within these.
_ATTENTION_TIMES = 1.15
_FEW_ROWS, _FEW_ROWS_TIMES = 8, 1.08
_FEW_ROWS_TERM_TIMES, _FEW_ROWS_NARROW_TERM_TIMES = 1.15, 1.35  # the latter for narrow heads and many keys
_CAUSAL_TIMES = 1.5
_TERM_TIMES, _TERM_LONG_TIMES = 1.3, 1.65
_NARROW_TERM_TIMES, _NARROW_TERM_LONG_TIMES = 1.5, 2.75
_LONG_KEYS, _NARROW_HEAD = 1024, 64

#: Key in a node's ``meta``: the most library calls on a path to the node.
AHEAD = "sinter_ahead"
#: Key in a node's ``meta``: Inductor generates the kernel that computes the node, but no op of a chain computes it.
WRITTEN = "sinter_written"


def worth_a_try(nodes: Sequence[Any], hint: Hint = plain_hint, small: bool = False) -> bool:
    """Whether a part can gain: it has two ops to fuse, and enough work that launches are not its whole cost.

    `small`: parts of any size pass, for tests of results.
    """
    working = [node for node in nodes if computes(node)]
    attends = any(map(is_attention, working))
    if len(working) < 2 and not attends:
        return False
    if small or attends:  # attention counts as several ops, and was compared with PyTorch's kernel before
        return True
    flop = max((flop_of(node, hint) for node in working), default=0.0)
    if flop >= _LEAST_FLOP or (len(working) >= _LEAST_OPS and border_bytes(nodes, hint) >= _LEAST_BYTES):
        return True
    return launches_of(nodes) >= _LEAST_LAUNCHES


def launches_of(nodes: Sequence[Any]) -> int:
    """The least number of kernels that Inductor launches for a part: its products, and one for each group of ops between them."""
    products = sum(TABLE[target_of(node)].product for node in nodes)
    return products + sum(any(computes(node) or _copies(node) for node in group) for group in _memory_groups(nodes))


def border_bytes(nodes: Iterable[Any], hint: Hint) -> int:
    """Bytes that enter and leave a part, each value once."""
    inside = set(nodes)
    outside = {i for node in inside for i in node.all_input_nodes if i not in inside and filled(i) is None}
    leaving = [node for node in inside if any(user not in inside for user in node.users)]
    return sum(bytes_of(node, hint) for node in leaving) + sum(_entering_bytes(node, inside, hint) for node in outside)


def _entering_bytes(node: Any, inside: Set[Any], hint: Hint) -> int:
    """Bytes that a part reads of a value: of a table only the gathered rows, if nothing in the part reads it otherwise."""
    readers = [user for user in node.users if user in inside]
    if all(TABLE[target_of(user)].rows_by and user.args[0] is node for user in readers):
        return min(bytes_of(node, hint), sum(bytes_of(user, hint) for user in readers))
    return bytes_of(node, hint)


def inductor_us(nodes: Sequence[Any], figures: Dict[str, float], hint: Hint, apart: Container[Any] = ()) -> float:
    """Microseconds of a part as Inductor would run it, in a CUDA graph.

    Each product is a library kernel that reads its operands and writes its result. Connected ops between products are one kernel, which
    reads and writes its border once. If Inductor's kernel also computes ops outside of the part, only its additional traffic counts. Kernels
    that make ids only for the part are subtracted. `figures`: the device model's; `apart`: nodes that no kernel of Inductor computes.
    """
    total = -MEMORY_START_US * len({i for node in nodes for i in node.all_input_nodes if i.meta.get(IDS_MADE, False)}.difference(nodes))
    for node in nodes:
        flop = flop_of(node, hint)
        if is_attention(node):
            total += attention_us(node, figures, hint)
        elif flop:
            total += product_us(node, flop, figures, hint)
            total += sum(_memory_us(2 * bytes_of(i, hint), figures) for i in _laid_otherwise(node))
    for group in _memory_groups(nodes):
        if any(is_list(node) for node in group):
            total += _lists_us(group, figures, hint)
        elif any(computes(node) or _copies(node) for node in group):
            total += _group_us(group, figures, hint) - _beyond_us(group, set(nodes), apart, figures, hint)
    return max(0.0, total)


def beyond_us(nodes: Sequence[Any], figures: Dict[str, float], hint: Hint) -> float:
    """The time of Inductor's code for a part's nodes that the part does not save, because Inductor's kernels also compute ops outside of it."""
    return sum(_beyond_us(group, set(nodes), (), figures, hint) for group in _memory_groups(nodes) if not any(map(is_list, group)))


def share_of_limit(nodes: Sequence[Any], limit_us: float, figures: Dict[str, float], hint: Hint) -> float:
    """The share of Inductor's estimated time that a plan may be expected to take. A plan that saves no kernel in addition to its one product
    can only win by that product. Its time is an estimate for the library and a prediction for the plan."""
    if not figures["products"]:  # a chip on which nothing was measured
        return _UNMEASURED_SHARE
    grouped = [_grouped_times(node, hint) for node in nodes if "_grouped_mm" in target_of(node)]
    if grouped:
        return 1 / max(grouped)
    products = [node for node in nodes if flop_of(node, hint) and not is_attention(node)]
    if len(products) != 1 or any(map(is_attention, nodes)):
        return 1.0
    beside = limit_us - product_us(products[0], flop_of(products[0], hint), figures, hint)
    return _LONE_SHARE if beside < MEMORY_START_US else 1.0


def _grouped_times(node: Any, hint: Hint) -> float:
    matrices, rows = sizes_of(node.args[1].meta["val"], hint)[0], sizes_of(node.meta["val"], hint)[0]
    one, doubling = _GROUPED_TIMES
    return one + doubling * math.log2(max(1.0, rows / matrices))


def attention_times(node: Any, figures: Dict[str, float], hint: Hint) -> float:
    """How many times its prediction a kernel of attention may take."""
    call, (batch, heads, rows, keys) = call_of(node), hinted(scores_of(node), hint)
    narrow = call.q.meta["val"].shape[3] <= _NARROW_HEAD
    if rows <= _FEW_ROWS and not call.causal:
        if call.bias is None:
            return _FEW_ROWS_TIMES
        return _FEW_ROWS_NARROW_TERM_TIMES if narrow and keys > _LONG_KEYS else _FEW_ROWS_TERM_TIMES
    if call.bias is not None:
        blocks = batch * heads * math.ceil(rows / 64)
        narrow = narrow and blocks > figures["sm_count"] / 2
        short, long = (_NARROW_TERM_TIMES, _NARROW_TERM_LONG_TIMES) if narrow else (_TERM_TIMES, _TERM_LONG_TIMES)
        return long if keys > _LONG_KEYS else short
    return _CAUSAL_TIMES if call.causal else _ATTENTION_TIMES


def tell_ahead(nodes: Iterable[Any], writes: Callable[[Any], bool] = lambda node: False) -> None:
    """Notes at each node of a graph, in order, the most library calls on a path to it: no kernel of Inductor spans such a call.
    `writes`: whether Inductor generates the kernel of a node that no op of a chain computes."""
    for node in nodes:
        node.meta[WRITTEN] = target_of(node) not in TABLE and writes(node)
        before = (i.meta.get(AHEAD, 0) + (i.op == "call_function" and not _is_written(i)) for i in node.all_input_nodes)
        node.meta[AHEAD] = max(before, default=0)


def _is_written(node: Any) -> bool:
    """Whether Inductor generates the kernel that computes a node, or needs no kernel for it."""
    row = TABLE.get(target_of(node))
    return filled(node) is not None or node.meta.get(WRITTEN, False) or row is not None and not row.product


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


def _beyond_us(group: Sequence[Any], inside: Set[Any], apart: Container[Any], figures: Dict[str, float], hint: Hint) -> float:
    """The time that capturing `group` does not save if Inductor's kernel for it also computes ops outside of the part. The rest of that kernel
    still starts, once for each piece that only the part connects. The values between both now cross memory. Ids that are made only for the part are
    counted elsewhere."""
    reached = {i: node for node in group for i in node.all_input_nodes if _goes_on(node, i, lambda at: at.all_input_nodes[:1], inside, apart)}
    entering = {i: node for i, node in reached.items() if not i.meta.get(IDS_MADE, False)}
    leaving = {user: node for node in group for user in node.users if _goes_on(node, user, lambda at: at.users, inside, apart)}
    if not entering and not leaving:
        return 0.0
    passed = sum(_entering_bytes(i, set(group), hint) for i in entering) + sum(bytes_of(node, hint) for node in set(leaving.values()))
    pieces = _pieces({**entering, **leaving}, inside, apart)
    return _memory_us(passed, figures) + MEMORY_START_US * (pieces - 1)


def _pieces(begins: Dict[Any, Any], inside: Set[Any], apart: Container[Any]) -> int:
    """How many connected pieces the nodes `begins` outside of a part form, by nodes that one kernel of Inductor may compute. `begins` maps each
    to the node of the part that is adjacent to it."""
    seen: Set[Any] = set()
    pieces = 0
    for begin, node in begins.items():
        pieces += begin not in seen
        waiting = [] if begin in seen else [begin]
        seen.update(waiting)
        while waiting:
            at = waiting.pop()
            beside = [i for i in (*at.all_input_nodes, *at.users) if i not in seen and _goes_on(node, i, lambda _: (), inside, apart, views=True)]
            seen.update(beside)
            waiting.extend(beside)
    return pieces


def _goes_on(node: Any, other: Any, beyond: Callable[[Any], Any], inside: Set[Any], apart: Container[Any], views: bool = False) -> bool:
    """Whether the kernel that computes `node` may also compute `other` outside of the part. If `other` is a view, the nodes past it decide, unless
    `views`: then it counts like any node."""
    if other in inside or other in apart or filled(other) is not None or is_list(other):
        return False
    if other.op != "call_function" or not _is_written(other) or other.meta.get(AHEAD) != node.meta.get(AHEAD, -1):
        return False
    if not views and target_of(other) in TABLE and TABLE[target_of(other)].moves and not _copies(other):
        return any(_goes_on(node, further, beyond, inside, apart) for further in beyond(other))
    return True


def _lists_us(group: Sequence[Any], figures: Dict[str, float], hint: Hint) -> float:
    """Kernels on lists, each of which computes some tensors completely. A kernel names their inputs and outputs, and every value between."""
    moved = border_bytes(group, hint)
    inside = set(group)
    read = {i for node in group for i in node.all_input_nodes if i not in inside}
    written = [node for node in group if any(user not in inside for user in node.users)]
    values = len(read) + len(written) + sum(len(node.meta["val"]) for node in group if is_list(node))
    streamed = (_memory_us(moved, figures) - MEMORY_START_US) * MEMORY_SHARE / _LIST_SHARE
    return streamed + MEMORY_START_US * math.ceil(values / _LIST_VALUES)


def _group_us(group: Sequence[Any], figures: Dict[str, float], hint: Hint) -> float:
    """One kernel that reads and writes the group's border once. Sums over rows need more kernels, which read the summed values once more: one for
    all sums with the same number of sums ahead of them. With many rows and few columns, another kernel joins the partial sums of its blocks."""
    sums = [node for node in group if _sums_rows(node, hint)]
    if not sums:
        return _memory_us(border_bytes(group, hint), figures) + _long_rows_us(group, figures, hint)
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
        total += _memory_us(_summed_bytes(level_sums, inside, hint), figures) + (MEMORY_START_US if joined else 0)
    most = max(bytes_of(node, hint) for node in (*group, *(node.args[0] for node in sums)))
    leaving = [node for node in group if any(user not in inside for user in node.users)]
    others = any(bytes_of(node, hint) * 16 > most for node in leaving if node not in sums)
    if others or any(_reduced_axes(node) is not None for node in group if node not in sums):
        total += _memory_us(border_bytes(group, hint), figures)
    return total


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


def _spread_us(group: Sequence[Any], sums: Sequence[Any], figures: Dict[str, float], hint: Hint) -> float:
    """A kernel that sums the rows and stores the outputs made of them, one that joins its blocks' sums, and one that reads the stored values."""
    inside = set(group)
    leaving = {node for node in group if any(user not in inside for user in node.users)}
    rows = _reached([node.args[0] for node in sums], inside.difference(sums))
    stored = rows & leaving
    others = leaving - stored - set(sums)
    again = _reached(others, inside.difference(sums, stored))

    def total_bytes(nodes: Iterable[Any]) -> int:
        return sum(bytes_of(node, hint) for node in nodes if filled(node) is None)

    first = total_bytes(rows - inside) + total_bytes(stored)
    second = total_bytes(again - inside.difference(sums, stored)) + total_bytes(others)
    rate = figures["hbm_bytes_per_us"]
    return first / (_SUM_SHARE * rate) + second / (MEMORY_SHARE * rate) + 3 * MEMORY_START_US + _SUM_START_US


def _reached(ends: Iterable[Any], through: Container[Any]) -> Set[Any]:
    """`ends` and the nodes that they are computed from, following only nodes of `through`."""
    found, waiting = set(ends), list(ends)
    while waiting:
        node = waiting.pop()
        fresh = [i for i in node.all_input_nodes if i not in found] if node in through else []
        found.update(fresh)
        waiting.extend(fresh)
    return found


def _summed_bytes(sums: Sequence[Any], inside: Set[Any], hint: Hint) -> int:
    """Bytes that a kernel of sums moves: the stored values that its operands are computed from, and the sums. Results of other reductions and values
    that enter or leave the group are stored."""
    stored, waiting = set(), [node.args[0] for node in sums]
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        if filled(node) is not None:
            continue
        if node not in inside or _reduced_axes(node) is not None or any(user not in inside for user in node.users):
            stored.add(node)
            continue
        fresh = [i for i in node.all_input_nodes if i not in seen]
        seen.update(fresh)
        waiting.extend(fresh)
    return sum(bytes_of(node, hint) for node in (*stored, *sums))


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


def _copies(node: Any) -> bool:
    """Whether a node copies its value to another memory order."""
    if target_of(node) not in ("aten.clone.default", "prims.inductor_force_stride_order.default"):
        return False
    return bool(node.meta["val"].stride() != node.args[0].meta["val"].stride())


def _laid_otherwise(node: Any) -> List[Any]:
    """The values that are copied in each call around a convolution, whose kernels need channels last: its weight if that has another order, and
    both image and result if the image has."""
    if "convolution" not in target_of(node) or by_channel(node):
        return []
    image, weight = (node.args[i].meta["val"] for i in range(2))
    plain = image.shape[1] != 1 and image.stride()[1] != 1
    told = math.prod(weight.shape[2:]) != 1 and weight.shape[1] != 1  # else both orders are the same memory
    return [*([node.args[1]] if told and weight.stride()[1] != 1 else []), *([node.args[0], node] if plain else [])]


def _memory_us(moved: float, figures: Dict[str, float]) -> float:
    cached = moved <= figures["l2_kept_share"] * figures["l2_bytes"]
    return moved / (MEMORY_SHARE * figures["l2_bytes_per_us" if cached else "hbm_bytes_per_us"]) + MEMORY_START_US


def _memory_groups(nodes: Sequence[Any]) -> List[List[Any]]:
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
        if node not in left:
            continue
        group, waiting = [], [node]
        left.discard(node)
        while waiting:
            at = waiting.pop()
            group.append(at)
            for beside in (*at.all_input_nodes, *at.users):
                if beside in left and ahead[beside] == ahead[node]:
                    left.discard(beside)
                    waiting.append(beside)
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
