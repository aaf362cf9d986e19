"""What Inductor's code calls for a part of a graph.

It computes what the operator ``torch.ops.sinter.run_chain`` does. A call of the operator goes through torch's dispatcher, which copies the
text of the chain, and finds the plan by that text. Inductor's code makes a ``Part`` at each place of a call when it is loaded.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch

from ... import _abi
from ..._binding import Bound
from ..._error import Error
from ..._library import library
from ..._plan import Plan
from . import run_chain
from .eager import DTYPES
from .options import SERVER, WAITING
from .store import store

_MOST_ROWS = 4096  # the most numbers of rows whose plans a part remembers
_MOST_BOUND = 16  # the most sets of addresses that a part remembers; in a loop of calls torch's allocator returns to a few

_address = torch.Tensor.data_ptr
_profiles: Any = getattr(torch.autograd, "_profiler_enabled")
_empty: Any = torch._C._dynamo.guards._empty_strided_cuda  # type: ignore[attr-defined]
_is_capturing: Any = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)  # None in builds without CUDA
_stream_of: Any = getattr(torch._C, "_cuda_getCurrentRawStream", None)

#: What a launch for some number of rows needs besides buffers: the plan; bytes of its workspace; workspaces by stream; the number of symbols;
#: their values; extents, strides and type of each output; (position, bytes) of each tensor that must begin so many bytes after the tensor
#: ahead of it; the microseconds that a launch adds to ``saved_us``.
_Ready = Tuple[Plan, int, Dict[int, Any], int, Any, Tuple[Any, ...], Tuple[Tuple[int, int], ...], float]


class Part:
    """A part of a compiled graph on one device. Thread-safe.

    A call with a number of rows that a plan ran for before only allocates the outputs, reads addresses and launches: Inductor's code passes
    inputs that are as in the earlier call. ``run_chain`` does all else: it finds the plan, runs a fallback, or reports an error.

    Args:
        chain: its packed text.
        how: as for the operator.
        device: the GPU; None for the CPU.
        fits: whether the inputs always have the types, extents and strides that the chain declares.
    """

    def __init__(self, chain: str, how: str, device: Optional[int], fits: bool) -> None:
        self._chain = chain
        self._how = how
        self._device = device
        self._fits = fits and device is not None
        self._flags = _abi.LAUNCH_PDL if how == SERVER else 0
        self._launch: Any = library().sinter_binding_launch
        self.forget()
        _parts.add(self)

    def forget(self) -> None:
        """Drops plans. The next calls find them again."""
        self._ready: Dict[int, _Ready] = {}
        self._bound: Dict[Tuple[Any, ...], Bound] = {}

    def __call__(self, m: int, inputs: List[torch.Tensor]) -> List[torch.Tensor]:
        ready = self._ready.get(m)
        if ready is None or _profiles():
            return self._find(m, inputs)
        plan, workspace, spaces, symbols, rows, made, joined, saved_us = ready
        stream, space = _stream_of(self._device), 0
        if workspace:
            held = spaces.get(stream)
            if held is None or held.size < workspace or not self._flags and _is_capturing():
                return self._run(m, inputs)
            space = held.address
        outputs = [_empty(*each) for each in made]
        buffers = (plan, space, *map(_address, inputs), *map(_address, outputs))
        bound = self._bound.get(buffers) or self._bind(buffers, joined)
        if bound is None or self._launch(bound._pointer, stream, symbols, rows, self._flags, None):
            return self._run(m, inputs)
        counters = run_chain.counters
        counters.launches += 1
        counters.saved_us += saved_us
        return outputs

    def _run(self, m: int, inputs: List[torch.Tensor]) -> List[torch.Tensor]:
        if self._device is None or _profiles():  # a profiler records the operator by its name
            result: List[torch.Tensor] = torch.ops.sinter.run_chain.default(inputs, m, self._chain, self._how)
            return result
        return run_chain.run_on(self._device, inputs, m, self._chain, self._how)

    def _find(self, m: int, inputs: List[torch.Tensor]) -> List[torch.Tensor]:
        known = self._ready  # not the next calls', if plans are dropped meanwhile
        outputs = self._run(m, inputs)
        found = self._ready_for(m, inputs) if self._fits else None
        if found is not None:
            if len(known) >= _MOST_ROWS:
                known.clear()
            known[m] = found
        return outputs

    def _ready_for(self, m: int, inputs: List[torch.Tensor]) -> Optional[_Ready]:
        """What later calls need, if nothing but a launch is left to do in them."""
        it = run_chain.carried(self._chain)
        assert self._device is not None  # ``_fits`` says so
        place = it.place(self._device, m)
        plan = place.settled
        if plan is None or it.any_rows and self._how not in WAITING and not it.fallback.tried:
            return None
        made = tuple((info.shape, info.strides, DTYPES[str(info.dtype)]) for info in it.chain.outputs(m))
        symbols, rows = (1, (ctypes.c_int64 * 1)(m)) if it.any_rows else (0, None)
        spaces, saved_us = plan.context._workspaces._by_stream, run_chain.saved_us(plan, place.limit_us)
        return plan, plan.workspace_size, spaces, symbols, rows, made, it.borders(inputs), saved_us

    def _bind(self, buffers: Tuple[Any, ...], joined: Tuple[Tuple[int, int], ...]) -> Optional[Bound]:
        """The binding of a plan to a workspace and addresses; None if the library refuses them, or if concatenated inputs lie apart."""
        plan, space, *addresses = buffers
        if any(addresses[i] - addresses[i - 1] != size for i, size in joined):
            return None
        inside = {i for i, _ in joined}
        passed = [address for i, address in enumerate(addresses) if i not in inside]
        try:
            bound = Bound(plan, (ctypes.c_uint64 * len(passed))(*passed), space)
        except Error:  # such as an address that is not aligned, which the next calls will have, too
            self._fits, self._ready = False, {}
            return None
        if len(self._bound) >= _MOST_BOUND:
            self._bound.clear()
        self._bound[buffers] = bound
        return bound


_parts: "weakref.WeakSet[Part]" = weakref.WeakSet()


def _forget_plans() -> None:
    for part in list(_parts):
        part.forget()


store.when_dropped(_forget_plans)
