"""Plans of the process: by device, chain and rows."""

from __future__ import annotations

import bisect
import logging
import threading
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from .. import _handle
from .._chain import Chain
from .._context import Context
from .._error import Error, Status, invalid
from .._plan import Plan
from .._shape import integer

logger = logging.getLogger("sinter")

#: Registered chains by their digests, which name them as a line names a chain of the text form.
chains: Dict[str, Chain] = {}

_ON_MISS = ("prepare", "torch")
# Answers that the next call would get again.
_FINAL = (Status.NO_LEGAL_PLAN, Status.FAILED_PRECONDITION, Status.INVALID_ARGUMENT, Status.UNIMPLEMENTED, Status.UNAVAILABLE)


class Settings(NamedTuple):
    """What ``configure`` sets."""

    sizes: Tuple[int, ...] = ()
    on_miss: str = "prepare"
    silu_and_mul: Optional[Callable[[torch.Tensor], torch.Tensor]] = None


class _Plans:
    """The plans of one chain on one device."""

    def __init__(self) -> None:
        self.by_rows: Dict[int, Plan] = {}
        self.sizes: List[int] = []
        self.refused: Optional[Error] = None

    def add(self, size: int, plan: Plan) -> None:
        self.by_rows[size] = plan
        if size not in self.sizes:
            bisect.insort(self.sizes, size)

    def find(self, rows: int) -> Optional[Plan]:
        """The plan made for the smallest size that is not below `rows`."""
        at = bisect.bisect_left(self.sizes, rows)
        if at == len(self.sizes):
            return None
        plan = self.by_rows[rows] = self.by_rows[self.sizes[at]]
        return plan


class Store:
    """Contexts, one for each device, made when the first plan is asked for; and their plans. Thread-safe.

    The child of a fork starts with an empty one.
    """

    def __init__(self) -> None:
        self.settings = Settings()
        self._lock = threading.RLock()
        self._made = _handle._generation
        self._contexts: Dict[int, Context] = {}
        self._plans: Dict[Tuple[int, str], _Plans] = {}
        self._chain_plans: Dict[Tuple[int, str, int], Plan] = {}
        self._warned = False

    def context(self, device: int) -> Context:
        """The context of a device."""
        with self._lock:
            self._forget_parents()
            found = self._contexts.get(device)
            if found is None:
                found = self._contexts[device] = Context(device)
            return found

    def use(self, context: Context) -> None:
        """Takes `context` for its device from now on; plans made before are dropped."""
        if context.device is None:
            raise invalid("the context drives no GPU")
        with self._lock:
            self._forget_parents()
            self._contexts[context.device] = context
            self._plans = {key: plans for key, plans in self._plans.items() if key[0] != context.device}
            self._chain_plans.clear()

    def find(self, device: int, line: str, rows: int) -> Optional[Plan]:
        """The plan for `rows` rows of the chain `line`, a text or a registered digest; None: torch computes it.

        Raises:
            Error: STREAM_CAPTURING with the sizes that are prepared, when none fits and work is being captured;
                whatever a prepare raises.
        """
        plans = self._plans.get((device, line))
        if plans is not None and self._made == _handle._generation:
            found = plans.by_rows.get(rows)
            if found is not None:
                return found
            if self.settings.on_miss == "torch" and plans.sizes and rows > plans.sizes[-1]:
                return None  # prefill, call after call
        return self._find_slowly(device, line, rows)

    def find_chain(self, device: int, chain: Chain, key: str, rows: int) -> Plan:
        """The plan of any chain for `rows` rows, prepared at the first call.

        Raises:
            Error: STREAM_CAPTURING when it would be prepared under capture; whatever a prepare raises.
        """
        found = self._chain_plans.get((device, key, rows))
        if found is not None and self._made == _handle._generation:
            return found
        if torch.cuda.is_current_stream_capturing():
            raise Error(
                Status.STREAM_CAPTURING,
                f"no plan of chain {key[:16]} for {rows} rows, and nothing is prepared while a stream captures: "
                "run it once before the capture",
            )
        with self._lock:
            context = self.context(device)
            made = self._chain_plans[device, key, rows] = context.prepare(chain, rows)
            context._workspaces.reserve()
            return made

    def prepare_chain(self, device: int, chain: Chain, key: str, sizes: Sequence[int]) -> Dict[int, str]:
        """Prepares any chain for each size, in parallel; the digests of the plans by size."""
        with self._lock:
            context = self.context(device)
            made = context.prepare_many([chain] * len(sizes), sizes)
            self._chain_plans.update({(device, key, size): plan for size, plan in zip(sizes, made)})
        context._workspaces.reserve()
        return {size: plan.digest for size, plan in zip(sizes, made)}

    def prepare(self, context: Context, lines: Sequence[str], sizes: Sequence[int]) -> Dict[Tuple[str, int], str]:
        """Prepares each chain for each size, in parallel; the digests of the plans by chain and size."""
        pairs = [(line, size) for line in lines for size in sizes]
        made_of = {line: chains.get(line) or Chain.from_text(line) for line in lines}
        made = context.prepare_many([made_of[line] for line, _ in pairs], [size for _, size in pairs])
        if context.device is not None:
            with self._lock:
                for (line, size), plan in zip(pairs, made):
                    self._of(context.device, line).add(size, plan)
            context._workspaces.reserve()
        return {pair: plan.digest for pair, plan in zip(pairs, made)}

    def reset(self) -> None:
        """Drops contexts, plans and settings."""
        with self._lock:
            self.__init__()  # type: ignore[misc]

    def _find_slowly(self, device: int, line: str, rows: int) -> Optional[Plan]:
        with self._lock:
            self._forget_parents()
            plans = self._of(device, line)
            if plans.refused is not None:
                self._refused(plans.refused)
                return None
            found = plans.find(rows)
            if found is None and torch.cuda.is_current_stream_capturing():
                self._capturing(plans, line, rows)
                return None
            if found is None:
                found = self._prepare_now(device, line, rows, plans)
            return found

    def _prepare_now(self, device: int, line: str, rows: int, plans: _Plans) -> Optional[Plan]:
        """All configured sizes at the first sight of a chain, then what is missing."""
        try:
            if self.settings.sizes and not plans.sizes:
                self.prepare(self.context(device), [line], self.settings.sizes)
                found = plans.find(rows)
                if found is not None:
                    return found
            if self.settings.on_miss == "torch":
                return None
            context = self.context(device)
            made = plans.by_rows[rows] = context.prepare(chains.get(line, line), rows)
            context._workspaces.reserve()
            return made
        except Error as error:
            if error.code in _FINAL:
                plans.refused = error
            self._refused(error)
            return None

    def _refused(self, error: Error) -> None:
        """Raises `error`, or says once that torch computes."""
        if self.settings.on_miss != "torch":
            raise error
        if not self._warned:
            self._warned = True
            logger.warning("sinter: torch computes instead: %s", error)

    def _capturing(self, plans: _Plans, line: str, rows: int) -> None:
        """Raises what names the sizes that are prepared, unless torch computes."""
        if self.settings.on_miss != "torch":
            prepared = ", ".join(map(str, plans.sizes)) or "none"
            raise Error(
                Status.STREAM_CAPTURING,
                f"no plan of '{line}' for {rows} rows, and nothing is prepared while a stream captures; prepared "
                f"sizes: {prepared} (sinter.torch.prepare_model before the capture)",
            )

    def _of(self, device: int, line: str) -> _Plans:
        return self._plans.setdefault((device, line), _Plans())

    def _forget_parents(self) -> None:
        if self._made != _handle._generation:
            self._made = _handle._generation
            self._contexts, self._plans, self._chain_plans = {}, {}, {}


store = Store()


def configure(
    *,
    sizes: Optional[Sequence[int]] = None,
    on_miss: str = "prepare",
    silu_and_mul: Optional[Callable[[torch.Tensor], torch.Tensor]] = None,
) -> None:
    """How the operators find their plans.

    Args:
        sizes: rows that every chain is prepared for when it is first seen, all at once; a call takes the plan of the
            next larger one.
        on_miss: for more rows than any size: "prepare" makes a plan at the call, some seconds when it is not cached;
            "torch" computes with torch's own operators, also where Sinter refuses the chain.
        silu_and_mul: what computes silu(left half) * right half of a [rows, 2 n] tensor in the second case.

    Raises:
        Error: INVALID_ARGUMENT.
    """
    if on_miss not in _ON_MISS:
        raise invalid(f"on_miss is {on_miss!r}; there are {' '.join(_ON_MISS)}")
    wanted = tuple(sorted({integer(size, f"sizes[{i}]", 1, 2**31 - 1) for i, size in enumerate(sizes or ())}))
    store.settings = Settings(wanted, on_miss, silu_and_mul)


def use_context(context: Context) -> None:
    """Takes `context` for the operators on its device instead of a default one; plans made before are dropped."""
    store.use(context)


def reset() -> None:
    """Forgets contexts, plans and settings."""
    store.reset()


