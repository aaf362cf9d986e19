"""Measures a part's time on the GPU: by its plan, and by Inductor's code for its nodes."""

from __future__ import annotations

import json
import math
import statistics
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..._chain import Chain
from ..._plan import Plan
from ..convert.aten import TABLE
from ..convert.converter import Converted, filled, target_of
from ..convert.op_table import viewed
from ..runtime.eager import DTYPES
from ..runtime.fallback import Fallback, compiled, compiling
from ..runtime.run_chain import run_plan
from ..runtime.store import store
from ..runtime.warn import logger

_ROUNDS = 7
_ROUND_MS = 1.0  # how long each implementation runs in a round
_MOST_COPIES = 16  # the most copies of the weights; calls read them in turn


class Measured(NamedTuple):
    """Microseconds of one call in a CUDA graph."""

    plan_us: float
    inductor_us: float


#: By the chain's and the plan's digests, M and the device.
_found: Dict[Tuple[str, str, int, int], Optional[Measured]] = {}
store.when_dropped(_found.clear)


def measured(nodes: Sequence[Any], made: Converted, m: int, plan: Plan, device: int, l2_bytes: float) -> Optional[Measured]:
    """Both sides of a part, measured interleaved, once in each process for equal parts. None if one side cannot run, with a line in the log,
    and for a part that has symbols which are not M.

    Inductor's code is made first: for the part's own `nodes`, or, for a part with M, for its chain at `m` rows. There are so many
    copies of the weights that no call finds them in the L2 cache, as in a model of many layers. Other inputs are warm, as if the ops before
    had just written them. May be called while Inductor compiles: another thread, without state of the compilation, does the work.
    """
    found = None if made.chain.uses_m else as_graph(nodes)
    if found is None and not made.chain.uses_m:
        return None
    key = (made.chain.digest, plan.digest, m, device)
    if key not in _found:

        def by_torch() -> Side:
            if found is None:
                return by_inductor_of_chain(made, m, f"cuda:{device}")
            return by_inductor(nodes, *found, torch.device("cuda", device))

        _found[key] = _in_a_thread(lambda: _measure(by_torch, made, m, plan, device, l2_bytes))
    return _found[key]


def _in_a_thread(work: Callable[[], Measured]) -> Optional[Measured]:
    results: List[Measured] = []

    def run() -> None:
        try:
            with torch.no_grad():
                results.append(work())
        except Exception as error:  # predictions decide after any error
            logger.warning("sinter: a part is not measured: %s: %s", type(error).__name__, error)

    with compiling():  # meanwhile no other thread compiles or patches Inductor's configuration
        thread = threading.Thread(target=run, name="sinter measures")
        thread.start()
        thread.join()
    return results[0] if results else None


class Side(NamedTuple):
    """One implementation of a part: a function of its inputs, inputs for it, and which of them nothing in the graph computes."""

    call: Callable[[List[torch.Tensor]], Any]
    inputs: List[torch.Tensor]
    weights: List[int]


def _measure(by_torch: Callable[[], Side], made: Converted, m: int, plan: Plan, device: int, l2_bytes: float) -> Measured:
    with torch.cuda.device(device):
        sides = [by_plan(made, m, plan, device), by_torch()]
        torch.cuda.synchronize()  # other streams read the random inputs
        sets = [[side.inputs, *_copies(side, 2 * l2_bytes)] for side in sides]
        graphs = [_captured(side.call, inputs) for side, inputs in zip(sides, sets)]
        return Measured(*(us / len(inputs) for us, inputs in zip(in_turns(graphs), sets)))


def by_plan(made: Converted, m: int, plan: Plan, device: int) -> Side:
    return Side(lambda inputs: run_plan(made.chain, plan, inputs, m), drawn(made.chain, m, f"cuda:{device}"), _weights(made))


def by_inductor_of_chain(made: Converted, m: int, device: str) -> Side:
    """Inductor's code for a chain at `m` rows, as the chain's fallback runs it."""
    inputs = drawn(made.chain, m, device)
    code = compiled(Fallback(made.chain).traced(inputs, m), inputs)
    return Side(lambda values: code(*values), inputs, _weights(made))


def _weights(made: Converted) -> List[int]:
    return [i for i, border in enumerate(made.inputs) if is_given(border.node)]


def by_inductor(nodes: Sequence[Any], graph: torch.fx.GraphModule, given: List[Any], device: torch.device) -> Side:
    """Inductor's code for `graph`, which ``as_graph`` made of `nodes`."""
    inputs = [_like(node.meta["val"], device, _below(node, nodes)) for node in given]
    code = compiled(graph, inputs)
    return Side(lambda values: code(*values), inputs, [i for i, node in enumerate(given) if is_given(node)])


def as_graph(nodes: Sequence[Any]) -> "Optional[Tuple[torch.fx.GraphModule, List[Any]]]":
    """A part as a separate graph, and the nodes that are its inputs; None if a size is a symbol."""
    inside = set(nodes)
    outside = dict.fromkeys(i for node in nodes for i in node.all_input_nodes if i not in inside)
    numbers = [i for i in outside if filled(i) is not None and not i.all_input_nodes]
    given = [i for i in outside if i not in numbers]
    if not all(_is_plain(node) for node in (*nodes, *outside)):
        return None
    graph = torch.fx.Graph()
    copies: Dict[Any, Any] = {node: graph.placeholder(f"x{i}") for i, node in enumerate(given)}
    for node in (*numbers, *nodes):
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in nodes if any(user not in inside for user in node.users)))
    return torch.fx.GraphModule(torch.nn.Module(), graph), given


def _is_plain(node: Any) -> bool:
    val = node.meta.get("val")
    vals = val if isinstance(val, (list, tuple)) else [val]
    tensors = [v for v in vals if isinstance(v, torch.Tensor)]
    others = [v for v in vals if not isinstance(v, (torch.Tensor, int, type(None)))]  # attention also returns numbers and None
    return bool(tensors) and not others and all(isinstance(size, int) for v in tensors for size in (*v.shape, *v.stride()))


def is_given(node: Any) -> bool:
    """Whether a value is an input of the graph, or a view of one."""
    return bool(viewed(node).op == "placeholder")


def _below(node: Any, nodes: Sequence[Any]) -> int:
    """The bound of the ids of `node`: the rows of the tables from which they gather in `nodes`."""
    readers = [user for user in nodes if target_of(user) in TABLE and TABLE[target_of(user)].rows_by and viewed(user.args[1]) is viewed(node)]
    return min((int(user.args[0].meta["val"].shape[0]) for user in readers), default=2)


def _like(val: torch.Tensor, device: torch.device, below: int) -> torch.Tensor:
    """A tensor with the strides of `val` and random values."""
    stored = [1 if stride == 0 else size for size, stride in zip(val.shape, val.stride())]
    made = torch.empty_strided(stored, val.stride(), dtype=val.dtype, device=device)
    return _by_chance(made, below, torch.Generator(device).manual_seed(1)).expand(val.shape)


def _by_chance(x: torch.Tensor, below: int, generator: torch.Generator) -> torch.Tensor:
    """Fills `x` with random values; the caller's random number generators do not advance."""
    if x.is_floating_point():
        return x.copy_(torch.randn(x.shape, device=x.device, generator=generator) / 16)
    return x.copy_(torch.randint(below, x.shape, device=x.device, generator=generator))


def _copies(side: Side, wanted: float) -> List[List[torch.Tensor]]:
    """Copies of a side's inputs, each with new memory for the weights, so many that the weights are `wanted` bytes together."""
    each = sum(side.inputs[i].nbytes for i in side.weights)
    count = min(_MOST_COPIES, math.ceil(wanted / each)) - 1 if each else 0
    made = [list(side.inputs) for _ in range(count)]
    for copy in made:
        for i in side.weights:
            x = side.inputs[i]
            copy[i] = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
            if 0 not in x.stride():
                copy[i].copy_(x)
    return made


def _captured(call: Callable[[List[torch.Tensor]], Any], sets: List[List[torch.Tensor]]) -> torch.cuda.CUDAGraph:
    """A CUDA graph with one call for each of `sets`."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(stream):
        call(sets[0])  # the first call loads and tunes kernels
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            kept = [call(inputs) for inputs in sets]
        finally:
            graph.capture_end()
    del kept
    return graph


def in_turns(graphs: Sequence[Any]) -> List[float]:
    """Median microseconds of a replay of each graph, measured interleaved in rounds."""
    counts = [max(3, int(_ROUND_MS * 1e3 / max(timed(graph, 3), 1))) for graph in graphs]
    rounds = [[timed(graph, count) for graph, count in zip(graphs, counts)] for _ in range(_ROUNDS)]
    return [statistics.median(each) for each in zip(*rounds)]


def timed(graph: Any, count: int) -> float:
    """Microseconds of one replay, on average over `count`."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    begin.record()
    for _ in range(count):
        graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e3 / count


def drawn(chain: Chain, m: int, device: str) -> List[torch.Tensor]:
    """Random inputs of a chain; ids are below the extent that they gather from."""
    below, inputs = id_bounds(json.loads(chain.to_json()), m), []
    generator = torch.Generator(device).manual_seed(1)
    for i, info in enumerate(chain.inputs(m)):
        made = torch.empty_strided(info.shape, info.strides, dtype=DTYPES[str(info.dtype)], device=device)
        inputs.append(_by_chance(made, below.get(i, 2), generator))
    return inputs


def id_bounds(document: Dict[str, Any], m: int) -> Dict[int, int]:
    """For each input of a chain's document that holds ids: the least extent that they gather from."""
    values = [*document["inputs"], *document["ops"]]
    bounds: Dict[int, int] = {}
    for op in document["ops"]:
        if op["op"] == "gather":
            table, at = op["in"]
            extent = values[table]["dims"][op["axis"]]
            while values[at].get("op") in ("cast", "reshape", "broadcast", "transpose", "slice"):
                at = values[at]["in"][0]
            bounds[at] = min(m if extent == "M" else extent, bounds.get(at, 2**31 - 1))
    return bounds
