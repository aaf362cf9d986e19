"""Plans of the process: by device, chain and rows."""

from __future__ import annotations

import logging
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from ..._argument import instance, integer, sequence
from ..._chain import Chain, ChainLike
from ..._context import Context
from ..._error import Error, Status, invalid
from ..._plan import Plan
from ..._prepare import Progress
from ..._slot import Slot
from .background_plans import Later
from .plans import Plans
from .single_flight import FINAL, Counters, Counts, Once, anew
from .warn import tell_once

logger = logging.getLogger("sinter")

#: Registered chains by their digests, which name them as a line names a chain of the text form.
chains: Dict[str, Chain] = {}

_ON_MISS = ("prepare", "torch")


class Settings(NamedTuple):
    """The settings of ``configure``."""

    sizes: Tuple[int, ...] = ()
    on_miss: str = "prepare"
    silu_and_mul: Optional[Callable[[torch.Tensor], torch.Tensor]] = None
    #: (x, residual, weight, eps) -> (the norm of their sum, their sum); the results may reuse the memory of x and residual.
    add_norm: Optional[Callable[..., Tuple[torch.Tensor, torch.Tensor]]] = None
    #: (x, a matrix of codes) -> their product by the server's kernels; None for a matrix that the server does not know.
    linear: Optional[Callable[[torch.Tensor, torch.Tensor], Optional[torch.Tensor]]] = None
    #: Numbers of rows above ``sizes`` whose plans are built in the background, while torch computes.
    later: Tuple[int, ...] = ()
    #: The logger that reports them.
    log: str = "sinter"


class _Device:
    """The process's state for one device: the context, made when the first plan is asked for, and plans."""

    def __init__(self, counters: Counters, context: Optional[Context] = None) -> None:
        self._contexts: Once[int, Context] = Once(Counters())
        if context is not None:
            self._contexts.made[0] = context
        #: By a chain's text or digest, and rows.
        self.once: Once[Tuple[str, int], Plan] = Once(counters)
        self.by_line: Dict[str, Plans] = {}

    def context(self, device: int) -> Context:
        return self._contexts.get(0, lambda: Context(device))

    def owns(self, context: Context) -> bool:
        return self._contexts.made.get(0) is context

    def plans(self, line: str) -> Plans:
        found = self.by_line.get(line)
        return self.by_line.setdefault(line, Plans()) if found is None else found


class Store:
    """Contexts, one for each device, and their plans. Thread-safe; no lock is held while a plan is prepared.

    The child of a fork starts with an empty one.
    """

    def __init__(self) -> None:
        self.settings = Settings()
        self._counters = Counters()
        self._devices: Dict[int, _Device] = {}
        self._told: Set[str] = set()
        self._dropping: List[Callable[[], object]] = []

    def when_dropped(self, f: Callable[[], object]) -> None:
        """Registers `f` to be called whenever plans are dropped: code that holds further plans then releases them."""
        self._dropping.append(f)

    def context(self, device: int) -> Context:
        """The context of a device."""
        return self._on(device).context(device)

    def use(self, context: Context) -> None:
        """Takes `context` for its device from now on; plans made before are dropped."""
        if context.device is None:
            raise invalid("the context drives no GPU")
        self._devices[context.device] = _Device(self._counters, context)
        self._drop()

    def counts(self) -> Counts:
        """How many plans were prepared, failed, waited for and refused, and how many layers plugins took."""
        return self._counters.read()

    def count_layers(self, layers: int) -> None:
        """Counts layers of a server's model that a plugin takes."""
        self._counters.add(layers=layers)

    def find(self, device: int, line: str, rows: int, within: Optional[Sequence[int]] = None) -> Optional[Plan]:
        """The plan for `rows` rows of the chain `line`, a text or a registered digest; None: torch computes it.

        Args:
            within: the configured numbers of rows for which plans of this chain are made; None: all.

        Raises:
            Error: STREAM_CAPTURING with the sizes that are prepared, when none fits and work is being captured;
                whatever a prepare raises.
        """
        plans = self._on(device).plans(line)
        found = plans.by_rows.get(rows)
        if found is not None:
            return found
        if self.settings.on_miss == "torch" and plans.sizes and rows > plans.sizes[-1]:
            return plans.find(rows)  # prefill, call after call
        return self._find_slowly(device, line, rows, plans, within)

    def ready(self, device: int, line: str, rows: int) -> Optional[Plan]:
        """The plan for `rows` rows of the chain `line` if it is there. Prepares nothing."""
        return self._on(device).plans(line).find(rows)

    def settle(self) -> None:
        """Drops numbers of rows that are larger than those of all plans, once a chain was seen. Under must-hit these are the numbers
        without a cached plan. If no chain has plans, it drops all."""
        seen = [plans for on in self._devices.values() for plans in on.by_line.values()]
        if seen:
            largest = max((plans.later.largest() for plans in seen if plans.later is not None), default=0)
            self.settings = self.settings._replace(later=tuple(size for size in self.settings.later if size <= largest))

    def find_chain(self, device: int, chain: Chain, key: str, rows: int) -> Plan:
        """The plan of any chain for `rows` rows, prepared at the first call.

        Raises:
            Error: STREAM_CAPTURING when it would be prepared under capture; whatever a prepare raises.
        """
        on = self._on(device)
        found = on.once.made.get((key, rows))
        if found is not None:
            return found
        if torch.cuda.is_current_stream_capturing():
            raise Error(
                Status.STREAM_CAPTURING,
                f"no plan of chain {key[:16]} for {rows} rows, and nothing is prepared while a stream captures: "
                "run it once before the capture",
            )
        return on.once.get((key, rows), lambda: _prepare_one(on.context(device), chain, rows))

    def prepare_chain(self, device: int, chain: Chain, key: str, sizes: Sequence[int], measure: int = 0) -> List[Plan]:
        """Prepares any chain for each size, in parallel. Returns the plans. `measure`: see ``Context.prepare``; above 0 replaces earlier plans."""
        on = self._on(device)
        pairs = [(key, size) for size in sizes]
        return _of_once(on.once, pairs, lambda missing: _prepare_all(on.context(device), {key: chain}, missing, measure=measure), measure)

    def prepare(
        self, context: Context, lines: Sequence[str], sizes: Sequence[int], progress: Optional[Progress] = None, measure: int = 0
    ) -> Dict[Tuple[str, int], str]:
        """Prepares each chain for each size, in parallel. Returns the digests of the plans by chain and size. `measure`: see ``prepare_chain``."""
        pairs = [(line, size) for line in lines for size in sizes]
        found = {line: _chain(line) for line in lines}

        def make(missing: Sequence[Tuple[str, int]]) -> List[Plan]:
            return _prepare_all(context, found, missing, progress, measure)

        if context.device is None:
            made = make(pairs)
        else:
            on = self._on(context.device)
            once: Once[Tuple[str, int], Plan] = on.once if on.owns(context) else Once(self._counters)
            made = _of_once(once, pairs, make, measure)
            for i, line in enumerate(lines):
                on.plans(line).add(sizes, made[i * len(sizes) : (i + 1) * len(sizes)])
        return {pair: plan.digest for pair, plan in zip(pairs, made)}

    def reset(self) -> None:
        """Drops contexts, plans, settings and counts."""
        self.settings = Settings()
        self.forget()

    def forget(self) -> None:
        """Drops contexts, plans and counts. A plan that is being prepared only goes to the calls that wait for it."""
        self._counters, self._devices, self._told = Counters(), {}, set()
        self._drop()

    def _drop(self) -> None:
        for f in self._dropping:
            f()

    def _on(self, device: int) -> _Device:
        found = self._devices.get(device)
        return self._devices.setdefault(device, _Device(self._counters)) if found is None else found

    def _find_slowly(self, device: int, line: str, rows: int, plans: Plans, within: Optional[Sequence[int]]) -> Optional[Plan]:
        if plans.refused is not None:
            self._counters.add(refused=1)
            self._refused(plans.refused)
            return None
        found = plans.find(rows)
        if found is None and torch.cuda.is_current_stream_capturing():
            self._capturing(plans, line, rows)
            return None
        return self._prepare_now(device, line, rows, plans, within) if found is None else found

    def _prepare_now(self, device: int, line: str, rows: int, plans: Plans, within: Optional[Sequence[int]]) -> Optional[Plan]:
        """Prepares all configured sizes when a chain is first seen, later the missing plan."""
        settings, on = self.settings, self._on(device)
        if within is not None:
            sizes, later = ([size for size in each if size in within] for each in (settings.sizes, settings.later))
            settings = settings._replace(sizes=tuple(sizes), later=tuple(later))
        try:
            if settings.sizes and not plans.sizes:
                self.prepare(on.context(device), [line], settings.sizes)
                if settings.later:
                    plans.build_later(lambda: self._later(on.context(device), line, settings))
                found = plans.find(rows)
                if found is not None:
                    return found
            if settings.on_miss == "torch":
                return None
            make = lambda: _prepare_one(on.context(device), chains.get(line, line), rows)
            made = plans.by_rows[rows] = on.once.get((line, rows), make)
            return made
        except Error as error:
            if error.code in FINAL:
                plans.refused = anew(error)
            self._refused(error)
            return None

    def _later(self, context: Context, line: str, settings: Settings) -> Later:
        chain, must_hit = _chain(line), context.must_hit

        def make(size: int) -> Slot:
            if must_hit:  # a slot reports a miss later, but ``settle`` must know now which plans are not cached
                context.prepare(chain, size)
            return context.slot(chain, size)

        return Later(make, settings.later, self._counters, settings.log)

    def _refused(self, error: Error) -> None:
        """Raises `error`, or logs once for each error that torch computes."""
        if self.settings.on_miss != "torch":
            raise anew(error)
        tell_once(f"torch computes instead: {error}", self._told)

    def _capturing(self, plans: Plans, line: str, rows: int) -> None:
        """Raises an error that names the prepared sizes, unless torch computes."""
        if self.settings.on_miss != "torch":
            prepared = ", ".join(map(str, plans.sizes)) or "none"
            raise Error(
                Status.STREAM_CAPTURING,
                f"no plan of '{line}' for {rows} rows, and nothing is prepared while a stream captures; prepared "
                f"sizes: {prepared} (sinter.torch.prepare_model before the capture)",
            )


def sizes_of(sizes: Sequence[int]) -> List[int]:
    """Numbers of rows, ascending, each once.

    Raises:
        TypeError: not a sequence of integers. Error: one is out of range.
    """
    return sorted({integer(size, f"sizes[{i}]", 1, 2**31 - 1) for i, size in enumerate(sequence(sizes, "sizes"))})


def _chain(line: str) -> Chain:
    """The chain that a line or a registered digest names."""
    return chains.get(line) or Chain.from_text(line)


def _prepare_one(context: Context, chain: ChainLike, rows: int) -> Plan:
    made = context.prepare(chain, rows)
    context._workspaces.reserve()
    return made


_Pair = Tuple[str, int]


def _of_once(once: "Once[_Pair, Plan]", pairs: Sequence[_Pair], make: Callable[[Sequence[_Pair]], List[Plan]], measure: int) -> List[Plan]:
    """The plans of `pairs`. Makes those that are missing; if `measure` is above 0, makes all."""
    if measure <= 0:
        return once.get_many(pairs, make)
    made = make(pairs)
    once.put(pairs, made)
    return made


def _prepare_all(
    context: Context, chains: Dict[str, Chain], pairs: Sequence[_Pair], progress: Optional[Progress] = None, measure: int = 0
) -> List[Plan]:
    more: Dict[str, Any] = {name: given for name, given in (("progress", progress), ("measure", measure)) if given}
    made = context.prepare_many([chains[line] for line, _ in pairs], [rows for _, rows in pairs], **more)
    if context.device is not None:
        context._workspaces.reserve()
    return made


store = Store()
os.register_at_fork(after_in_child=store.forget)


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
        silu_and_mul: the function that computes silu(left half) * right half of a [rows, 2 n] tensor with on_miss "torch".

    Raises:
        Error: INVALID_ARGUMENT.
    """
    if not isinstance(on_miss, str) or on_miss not in _ON_MISS:
        raise invalid(f"on_miss is {on_miss!r}; there are {' '.join(_ON_MISS)}")
    if silu_and_mul is not None and not callable(silu_and_mul):
        raise TypeError(f"silu_and_mul is a {type(silu_and_mul).__name__}, which cannot be called")
    wanted = tuple(sizes_of(() if sizes is None else sizes))
    store.settings = Settings(wanted, on_miss, silu_and_mul)


def use_context(context: Context) -> None:
    """Takes `context` for the operators on its device instead of a default one; plans made before are dropped.

    Raises:
        Error: INVALID_ARGUMENT for one without a GPU; FAILED_PRECONDITION for one that is closed.
    """
    instance(context, Context, "context")._checked()
    store.use(context)


def counts() -> Counts:
    """How many plans the operators of this process prepared, how many prepares failed, were waited for and refused, and how
    many layers a server's plugin computes."""
    return store.counts()


def reset() -> None:
    """Forgets contexts, plans, settings and counts."""
    store.reset()


