"""The operator ``torch.ops.sinter.run_chain`` of compiled graphs. It carries its chain, so a graph from Inductor's cache runs in a
new process. It never waits for a build, except under capture or if that is asked for: meanwhile it runs Inductor's code for the chain."""

from __future__ import annotations

import base64
import ctypes
import functools
import json
import threading
import time
import zlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ... import _abi
from ..._chain import Chain
from ..._context import Context
from ..._error import Error, Status
from ..._library import call
from ..._plan import Plan
from ..._slot import STAND_IN, Slot
from ..._stream import current_of_torch
from .adjacent_weights import as_one
from .buckets import bucket
from .eager import DTYPES
from .fallback import Fallback
from .launch import fake_outputs, workspace_of_call
from .options import SERVER, WAITING, candidates_in
from .register import register
from .single_flight import FINAL
from .store import store
from .upgrade import Upgrade
from .warn import logger, warn_once

_CAPTURE_SECONDS = 300.0  # the longest wait for a build under capture, because the graph permanently replays what it captures
_MOST_FAULTS = 5  # after so many builds that fail for a reason that may pass, the plan is refused
_RETRY_SECONDS = 5.0  # the pause before the next build; each failure doubles it


class Counts(NamedTuple):
    """What compiled graphs ran since the start of the process.

    Attributes:
        launches: partitions run by a plan.
        waiting: partitions run by Inductor's code, or torch's operators, while the plan was being built.
        refused: partitions run by them because there is no plan, or none that is predicted to be faster.
        saved_us: the sum over all launches of the time that a plan was allowed to take, less the time that it is predicted to take.
        fallback_s: seconds that calls took to make Inductor's code for parts without a plan.
    """

    launches: int = 0
    waiting: int = 0
    refused: int = 0
    saved_us: float = 0.0
    fallback_s: float = 0.0


class _Counters:
    def __init__(self) -> None:
        self.launches = self.waiting = self.refused = 0
        self.saved_us = 0.0


counters = _Counters()


def graph_counts() -> Counts:
    """What compiled graphs ran since the start of the process. Counted without a lock: about right with several threads."""
    return Counts(counters.launches, counters.waiting, counters.refused, counters.saved_us, Fallback.seconds)


#: The time that a captured plan takes in addition to its prediction: for each kernel, and for writing zeros into a workspace.
_KERNEL_US = 0.4
_ZEROS_US = 1.45


def expected_us(plan: Plan) -> float:
    """A plan's expected time in a CUDA graph: its prediction, plus the time that the graph adds."""
    return in_a_graph_us(plan.predicted_us, plan.kernel_count, plan.workspace_size)


def saved_us(plan: Plan, limit_us: Optional[float]) -> float:
    """What a launch of a plan that may take `limit_us` adds to ``Counts.saved_us``."""
    return max(0.0, (limit_us or 0.0) - expected_us(plan))


def in_a_graph_us(predicted_us: float, kernels: int, workspace: int) -> float:
    """The expected time in a CUDA graph of a plan with so many kernels and so many bytes of workspace."""
    return predicted_us + _KERNEL_US * kernels + (_ZEROS_US if workspace else 0)


def pack(
    chain: Chain, limits_us: Sequence[float] = (), tensors: Sequence[int] = (), over: Sequence[int] = (), candidates: int = 0
) -> str:
    """The text that an operator carries: its chain's JSON, the limits of a plan's predicted time, how many tensors each input consists of,
    the input that each output overwrites, and how many candidates are measured for a plan. It is compressed, because a call copies it."""
    several = [*tensors] if any(count != 1 for count in tensors) else []
    told = {"chain": json.loads(chain.to_json()), "limits_us": [*limits_us], "tensors": several, "over": [*over], "candidates": candidates}
    text = json.dumps(told, separators=(",", ":"))
    return base64.b85encode(zlib.compress(text.encode(), 9)).decode()


@functools.lru_cache(maxsize=4096)
def carried(text: str) -> "Carried":
    """The object of this process for a packed `text`."""
    found = json.loads(zlib.decompress(base64.b85decode(text)))
    return Carried(Chain.from_json(found["chain"]), found["limits_us"], found.get("tensors", ()), found.get("over", ()), found.get("candidates", 0))


store.when_dropped(carried.cache_clear)


class Place:
    """The plan for some rows on some device: it is being built, there, or refused. Thread-safe. `limit_us`: the most that it may be expected to
    take, 0 or less if no plan gains; None: no limit. `candidates`: how many are measured for it, in the background if no earlier choice is
    cached; 0: as the context says."""

    def __init__(self, device: int, chain: Chain, m: int, limit_us: Optional[float], candidates: int = 0) -> None:
        self._plan: Optional[Plan] = None
        self.refused: Optional[str] = None
        self.limit_us = limit_us
        self._make_slot: Callable[[], Any] = lambda: _slot_of(store.context(device), chain, m, candidates)
        self._slot: Any = None
        self._upgrade: Optional[Upgrade] = None
        self._faults = 0
        self._not_before = 0.0

    @property
    def plan(self) -> Optional[Plan]:
        """The plan, if it is there; once measuring has chosen another one, that one."""
        if self._upgrade is not None:
            newer = self._upgrade.newer()
            if newer is not None:
                newer.context._workspaces.reserve()
                self._plan, self._upgrade = newer, None
        return self._plan

    @property
    def settled(self) -> Optional[Plan]:
        """The plan, if it is there and no other one will follow."""
        return self._plan if self._upgrade is None else None

    def look(self, wait_seconds: Optional[float]) -> Optional[Plan]:
        """The plan, if it is there now or within `wait_seconds` (-1: without limit)."""
        if self.plan is not None or self.refused is not None:
            return self.plan
        try:
            slot = self._slot
            if slot is None:
                if time.monotonic() < self._not_before:
                    return None
                slot = self._slot = self._make_slot()
            if wait_seconds is not None:
                slot.build.result(None if wait_seconds < 0 else wait_seconds)
            if slot.generation > STAND_IN:
                self._keep(slot.plan())
            elif slot.build.done():
                slot.build.result(0)
                self._keep(slot.plan())
        except TimeoutError:
            return None
        except Error as error:
            self._fault(error)
        return self.plan

    def _fault(self, error: Error) -> None:
        """Refuses the plan if the next build would also fail; else another build follows later."""
        self._slot = None
        self._faults += 1
        self._not_before = time.monotonic() + _RETRY_SECONDS * 2**self._faults
        if error.code in (*FINAL, Status.OUT_OF_RANGE) or self._faults >= _MOST_FAULTS:
            self._refuse(str(error))
            if error.code == Status.COMPILE_FAILED:
                warn_once(f"Inductor's code computes a part with an op that no kernel takes; options={{'prepare': 'block'}} leaves only that op: {error}")
        else:
            logger.info("sinter: torch computes a part of the graph for now: %s", error)

    def _keep(self, plan: Optional[Plan]) -> None:
        if plan is None:
            return
        if self.limit_us is not None and expected_us(plan) > self.limit_us:
            self._refuse(f"predicted {expected_us(plan):.1f} us, which gains beside Inductor's kernels up to {self.limit_us:.1f} us")
        else:
            if not torch.cuda.is_current_stream_capturing():
                plan.context._workspaces.reserve()
            if self._slot._goes_on:
                self._upgrade = Upgrade(self._slot, shares_workspace=True)
            self._plan = plan
            self._slot = None

    def _refuse(self, why: str) -> None:
        self.refused = why
        self._slot = None  # the slot would keep the plan loaded
        logger.info("sinter: torch computes a part of the graph: %s", why)


def _slot_of(context: Context, chain: Chain, m: int, candidates: int) -> Slot:
    candidates = candidates_in(context, candidates)
    return context.slot(chain, m, measure=candidates) if candidates else context.slot(chain, m)


class Carried:
    """A chain of a compiled graph, its plans by device and bucket of rows, and its fallback without a plan. Thread-safe.

    `limits_us`: the most that a plan may be expected to take: one number, or one for each of ``BUCKETS``; empty if there is no limit.
    `tensors`: how many tensors are concatenated to each input; empty if each input is one. `over`: the input that each output overwrites, if all
    outputs do; else empty. `candidates`: how many are measured for a plan.
    """

    def __init__(
        self, chain: Chain, limits_us: Sequence[float] = (), tensors: Sequence[int] = (), over: Sequence[int] = (), candidates: int = 0
    ) -> None:
        self.chain = chain
        self.over = over
        self.tensors = tensors
        self._limits_us = limits_us
        self._candidates = candidates
        self.fallback = Fallback(chain)
        self.any_rows = chain.uses_m
        self._places: Dict[Tuple[int, int], Place] = {}
        self._lock = threading.Lock()

    def place(self, device: int, m: int) -> Place:
        """The place of the plan whose bucket holds M = `m`; one more bucket holds all rows above the last."""
        at = bucket(m) if self.chain.uses_m else 0
        found = self._places.get((device, at))
        if found is None:
            with self._lock:
                found = self._places.get((device, at))
                if found is None:
                    limit = self._limits_us[min(at, len(self._limits_us) - 1)] if self._limits_us else None
                    found = self._places[device, at] = Place(device, self.chain, m, limit, self._candidates)
        return found

    def joined(self, inputs: List[torch.Tensor]) -> List[torch.Tensor]:
        """The chain's inputs, with the tensors of an input that consists of several concatenated."""
        if not self.tensors:
            return inputs
        left = iter(inputs)
        given = [[next(left) for _ in range(count)] for count in self.tensors]
        return [each[0] if len(each) == 1 else as_one(each) for each in given]

    def borders(self, inputs: Sequence[torch.Tensor]) -> Tuple[Tuple[int, int], ...]:
        """(position, bytes) of each tensor that continues an input: it is concatenated to the tensor ahead, which has so many bytes."""
        found, at = [], 0
        for count in self.tensors:
            found += [(i, inputs[i - 1].nbytes) for i in range(at + 1, at + count)]
            at += count
        return tuple(found)

    def declared(self, inputs: Sequence[torch.Tensor], m: int) -> List[torch.Tensor]:
        """The chain's inputs with the types, extents and strides that it declares; copies, if their strides differ."""
        return [_as_declared(x, DTYPES[str(info.dtype)], info.shape, info.strides) for x, info in zip(inputs, self.chain.inputs(m))]


def _as_declared(x: torch.Tensor, dtype: torch.dtype, shape: Tuple[int, ...], strides: Tuple[int, ...]) -> torch.Tensor:
    """The input with the declared type, extents and strides. Types differ if Inductor turned a scatter into zeros into a select of integers: the
    graph's metadata still says f32."""
    if x.dtype != dtype:
        x = x.to(dtype)
    if x.shape != shape:
        x = x.reshape(shape)
    if all(size == 1 or a == b for size, a, b in zip(shape, x.stride(), strides)):
        return x
    return _copied(x, strides)


def _copied(x: torch.Tensor, strides: Tuple[int, ...]) -> torch.Tensor:
    return torch.empty_strided(x.shape, strides, dtype=x.dtype, device=x.device).copy_(x)


def _outputs(chain: Chain, m: int, device: torch.device) -> List[torch.Tensor]:
    return [torch.empty_strided(o.shape, o.strides, dtype=DTYPES[str(o.dtype)], device=device) for o in chain.outputs(m)]


def _run_cuda(inputs: List[torch.Tensor], m: int, chain: str, how: str) -> List[torch.Tensor]:
    return run_on(inputs[0].device.index, inputs, m, chain, how)


def run_on(device: int, inputs: List[torch.Tensor], m: int, chain: str, how: str) -> List[torch.Tensor]:
    """What the operator computes on a GPU: by a plan, or by torch while there is none."""
    it = carried(chain)
    with torch.no_grad():
        given = it.joined(inputs)
        try:
            given = it.declared(given, m)
            place = it.place(device, m)
            plan = place.plan or place.look(patience(how))
            if it.any_rows and how not in WAITING:  # calls with rows of other buckets must not wait for this code
                it.fallback.prepare(given, m)
            if plan is not None:
                return _launch(it, plan, given, m, place.limit_us, how == SERVER, device)
        except Error as error:
            warn_once(f"torch computes instead of a plan: {error}")
            counters.refused += 1
            return it.fallback.by_torch(given, m)
        if place.refused is None:
            counters.waiting += 1
        else:
            counters.refused += 1
        return it.fallback(given, m)


def patience(how: str) -> Optional[float]:
    """Seconds that an operator waits for its plan, for ``Place.look``. Under capture it waits, because a graph permanently replays its capture."""
    if how in WAITING:
        return -1
    return _CAPTURE_SECONDS if torch.cuda.is_current_stream_capturing() else None


def _launch(
    it: Carried, plan: Plan, inputs: List[torch.Tensor], m: int, limit_us: Optional[float], in_turn: bool, device: int
) -> List[torch.Tensor]:
    outputs = run_plan(it.chain, plan, inputs, m, it.over, in_turn, device)
    counters.launches += 1
    counters.saved_us += saved_us(plan, limit_us)
    return outputs


def run_plan(
    chain: Chain, plan: Plan, inputs: List[torch.Tensor], m: int, over: Sequence[int] = (), in_turn: bool = False, device: Optional[int] = None
) -> List[torch.Tensor]:
    """Enqueues a plan of `chain` on torch's current stream. Returns its outputs, in new memory or in the memory of the inputs `over`.
    `in_turn`: graphs that capture it are replayed one after another, see ``SERVER``. `device`: by default that of the inputs."""
    on: int = inputs[0].device.index if device is None else device
    inputs = [_copied(x, x.stride()) if x.data_ptr() % 16 else x for x in inputs]
    outputs = [inputs[i] for i in over] if over else _outputs(chain, m, inputs[0].device)
    addresses = (ctypes.c_uint64 * (len(inputs) + len(outputs)))(*[x.data_ptr() for x in (*inputs, *outputs)])
    stream = current_of_torch(on)
    workspace = 0
    if plan.workspace_size:
        if not in_turn and torch.cuda.is_current_stream_capturing():  # from the graph's own pool: graphs of one stream may be replayed concurrently
            space = workspace_of_call(plan, stream, on)
            workspace = space.data_ptr()
        else:
            workspace = plan.context._workspaces.address(stream, plan.workspace_size)
    plan._launch(addresses, workspace, stream, m, in_turn)
    return outputs


def _run_cpu(inputs: List[torch.Tensor], m: int, chain: str, how: str) -> List[torch.Tensor]:
    it = carried(chain)
    with torch.no_grad():
        given = it.declared(it.joined(inputs), m)
        return by_reference(it.chain, given, m) if how == "reference" else it.fallback.by_torch(given, m)


def by_reference(chain: Chain, inputs: Sequence[torch.Tensor], m: int) -> List[torch.Tensor]:
    """Computes by the library's executor on the host, in float64."""
    outputs = _outputs(chain, m, torch.device("cpu"))
    call("sinter_x_reference_run", chain._get(), m, len(inputs), _pointers(inputs), len(outputs), _pointers(outputs), 0)
    return outputs


def _pointers(tensors: Sequence[torch.Tensor]) -> Any:
    return (ctypes.c_void_p * max(len(tensors), 1))(*[x.data_ptr() for x in tensors])


def _run_fake(inputs: List[torch.Tensor], m: Any, chain: str, how: str) -> List[torch.Tensor]:
    return fake_outputs(carried(chain).chain, m, inputs[0])


register("run_chain", "(Tensor[] inputs, SymInt m, str chain, str how) -> Tensor[]", _run_cuda, _run_cpu, _run_fake)
