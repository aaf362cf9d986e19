"""What a part takes on the GPU: by its plan, and by Inductor's code for the same chain."""

from __future__ import annotations

import json
import math
import statistics
import threading
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .._chain import Chain
from .._plan import Plan
from ._by_torch import DTYPES
from ._fallback import Fallback, compiling
from ._run_chain import run_plan
from ._store import store
from ._warn import logger

_ROUNDS = 7
_ROUND_MS = 1.0  # that each contestant runs for in a round
_MOST_COPIES = 16  # of the weights, that are read in turns


class Measured(NamedTuple):
    """Microseconds of a call in a CUDA graph."""

    plan_us: float
    inductor_us: float


_found: Dict[Tuple[str, int, int], Optional[Measured]] = {}
store.when_dropped(_found.clear)


def measured(chain: Chain, m: int, plan: Plan, device: int, weights: Sequence[int], l2_bytes: float) -> Optional[Measured]:
    """Both sides of a part, measured in turns, once a process for equal parts; None where one cannot be run, with a word in the log.

    Inductor's code is made first. Weights lie in memory so often that no call finds them in the L2 cache, as in a model of many layers;
    other inputs are warm, as what ran before has just written them. May be called while Inductor compiles: another thread, with no state
    of the compilation's, does the work.

    Args:
        weights: the inputs that nothing in the graph computes.
    """
    key = (chain.digest, m, device)
    if key not in _found:
        _found[key] = _in_a_thread(lambda: _measure(chain, m, plan, device, weights, l2_bytes))
    return _found[key]


def _in_a_thread(work: Callable[[], Measured]) -> Optional[Measured]:
    results: List[Measured] = []

    def run() -> None:
        try:
            with torch.no_grad():
                results.append(work())
        except Exception as error:  # whatever it is, predictions decide
            logger.warning("sinter: a part is not measured: %s: %s", type(error).__name__, error)

    with compiling():  # nobody else compiles, nor patches Inductor's configuration, meanwhile
        thread = threading.Thread(target=run, name="sinter measures")
        thread.start()
        thread.join()
    return results[0] if results else None


def _measure(chain: Chain, m: int, plan: Plan, device: int, weights: Sequence[int], l2_bytes: float) -> Measured:
    with torch.cuda.device(device):
        first = drawn(chain, m, f"cuda:{device}")
        sets = [first, *_copies(first, weights, 2 * l2_bytes)]
        fallback = Fallback(chain)
        fallback.make(first, m)
        if fallback.run(first, m) is None:
            raise RuntimeError("Inductor makes no code for it")
        sides: Tuple[Callable[[List[torch.Tensor]], Any], ...] = (
            lambda inputs: run_plan(chain, plan, inputs, m),
            lambda inputs: fallback.run(inputs, m),
        )
        plan_us, inductor_us = (us / len(sets) for us in in_turns([_captured(side, sets) for side in sides]))
        return Measured(plan_us, inductor_us)


def _copies(inputs: List[torch.Tensor], weights: Sequence[int], wanted: float) -> List[List[torch.Tensor]]:
    """`inputs` with other memory for `weights`, so often that all of them are `wanted` bytes."""
    each = sum(inputs[i].nbytes for i in weights)
    count = min(_MOST_COPIES, math.ceil(wanted / each)) - 1 if each else 0
    made = [list(inputs) for _ in range(count)]
    for copy in made:
        for i in weights:
            copy[i] = torch.empty_strided(inputs[i].shape, inputs[i].stride(), dtype=inputs[i].dtype, device=inputs[i].device).copy_(inputs[i])
    return made


def _captured(side: Callable[[List[torch.Tensor]], Any], sets: List[List[torch.Tensor]]) -> torch.cuda.CUDAGraph:
    """A graph of a call with each of `sets`."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        side(sets[0])  # loads and tunes what the first call does
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            kept = [side(inputs) for inputs in sets]
        finally:
            graph.capture_end()
    del kept
    return graph


def in_turns(graphs: Sequence[Any]) -> List[float]:
    """Median microseconds of a replay of each, measured one after another in rounds."""
    counts = [max(3, int(_ROUND_MS * 1e3 / max(timed(graph, 3), 1))) for graph in graphs]
    rounds = [[timed(graph, count) for graph, count in zip(graphs, counts)] for _ in range(_ROUNDS)]
    return [statistics.median(each) for each in zip(*rounds)]


def timed(graph: Any, count: int) -> float:
    """Microseconds of one of `count` replays."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e3 / count


def drawn(chain: Chain, m: int, device: str) -> List[torch.Tensor]:
    """Inputs of a chain by chance; ids are below the extent that they are gathered from. The caller's random numbers stay as they are."""
    below, inputs = id_bounds(json.loads(chain.to_json()), m), []
    generator = torch.Generator(device).manual_seed(1)
    for i, info in enumerate(chain.inputs(m)):
        made = torch.empty_strided(info.shape, info.strides, dtype=DTYPES[str(info.dtype)], device=device)
        if made.is_floating_point():
            values = torch.randn(info.shape, device=device, generator=generator) / 16
        else:
            values = torch.randint(below.get(i, 2), info.shape, device=device, generator=generator)
        inputs.append(made.copy_(values))
    return inputs


def id_bounds(document: Dict[str, Any], m: int) -> Dict[int, int]:
    """By input of a chain's document: the least extent that it is gathered from by."""
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
