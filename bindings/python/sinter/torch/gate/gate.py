"""Decides whether a part is worth an operator: compares its plan's predicted time with the time of Inductor's kernels."""

from __future__ import annotations

import functools
import math
from typing import Any, Callable, Container, Dict, Iterable, List, Sequence, Set

from ..convert.aten import TABLE
from ..convert.attention import call_of, is_attention, scores_of
from ..convert.converter import filled, target_of
from ..convert.foreach import is_list
from ..convert.walks import reached
from ..convert.windows import by_channel
from ..graph.rows_by_ids import IDS_MADE
from ..partition.supported import computes
from .generated_kernels import border_bytes, copies, entering_bytes, group_us, lists_us, memory_groups, memory_us
from .library_kernels import MEMORY_START_US, attention_us, flop_of, product_us
from .sizes import Hint, bytes_of, hinted, plain_hint, sizes_of

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
    return products + sum(any(computes(node) or copies(node) for node in group) for group in memory_groups(nodes))


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
            total += sum(memory_us(2 * bytes_of(i, hint), figures) for i in _laid_otherwise(node))
    for group in memory_groups(nodes):
        if any(is_list(node) for node in group):
            total += lists_us(group, figures, hint)
        elif any(computes(node) or copies(node) for node in group):
            total += group_us(group, figures, hint) - _beyond_us(group, set(nodes), apart, figures, hint)
    return max(0.0, total)


def beyond_us(nodes: Sequence[Any], figures: Dict[str, float], hint: Hint) -> float:
    """The time of Inductor's code for a part's nodes that the part does not save, because Inductor's kernels also compute ops outside of it."""
    return sum(_beyond_us(group, set(nodes), (), figures, hint) for group in memory_groups(nodes) if not any(map(is_list, group)))


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


def _beyond_us(group: Sequence[Any], inside: Set[Any], apart: Container[Any], figures: Dict[str, float], hint: Hint) -> float:
    """The time that capturing `group` does not save if Inductor's kernel for it also computes ops outside of the part. The rest of that kernel
    still starts, once for each piece that only the part connects. The values between both now cross memory. Ids that are made only for the part are
    counted elsewhere."""
    reached = {i: node for node in group for i in node.all_input_nodes if _goes_on(node, i, lambda at: at.all_input_nodes[:1], inside, apart)}
    entering = {i: node for i, node in reached.items() if not i.meta.get(IDS_MADE, False)}
    leaving = {user: node for node in group for user in node.users if _goes_on(node, user, lambda at: at.users, inside, apart)}
    if not entering and not leaving:
        return 0.0
    passed = sum(entering_bytes(i, set(group), hint) for i in entering) + sum(bytes_of(node, hint) for node in set(leaving.values()))
    pieces = _pieces({**entering, **leaving}, inside, apart)
    return memory_us(passed, figures) + MEMORY_START_US * (pieces - 1)


def _pieces(begins: Dict[Any, Any], inside: Set[Any], apart: Container[Any]) -> int:
    """How many connected pieces the nodes `begins` outside of a part form, by nodes that one kernel of Inductor may compute. `begins` maps each
    to the node of the part that is adjacent to it."""
    seen: Set[Any] = set()
    pieces = 0
    for begin, node in begins.items():
        if begin not in seen:
            pieces += 1
            goes_on = functools.partial(_goes_on, node, beyond=lambda _: (), inside=inside, apart=apart, views=True)
            seen.update(reached([begin], lambda at: [i for i in (*at.all_input_nodes, *at.users) if i not in seen and goes_on(i)]))
    return pieces


def _goes_on(node: Any, other: Any, beyond: Callable[[Any], Any], inside: Set[Any], apart: Container[Any], views: bool = False) -> bool:
    """Whether the kernel that computes `node` may also compute `other` outside of the part. If `other` is a view, the nodes past it decide, unless
    `views`: then it counts like any node."""
    if other in inside or other in apart or filled(other) is not None or is_list(other):
        return False
    if other.op != "call_function" or not _is_written(other) or other.meta.get(AHEAD) != node.meta.get(AHEAD, -1):
        return False
    if not views and target_of(other) in TABLE and TABLE[target_of(other)].moves and not copies(other):
        return any(_goes_on(node, further, beyond, inside, apart) for further in beyond(other))
    return True


def _laid_otherwise(node: Any) -> List[Any]:
    """The values that are copied in each call around a convolution, whose kernels need channels last: its weight if that has another order, and
    both image and result if the image has."""
    if "convolution" not in target_of(node) or by_channel(node):
        return []
    image, weight = (node.args[i].meta["val"] for i in range(2))
    plain = image.shape[1] != 1 and image.stride()[1] != 1
    told = math.prod(weight.shape[2:]) != 1 and weight.shape[1] != 1  # else both orders are the same memory
    return [*([node.args[1]] if told and weight.stride()[1] != 1 else []), *([node.args[0], node] if plain else [])]