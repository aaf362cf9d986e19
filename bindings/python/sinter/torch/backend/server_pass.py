"""The pass for a server that compiles its model itself and captures decoding steps: plans are there before the server captures."""

from __future__ import annotations

import time
import uuid
from typing import Any, Callable, List, Sequence, Set

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass

from ..._error import Error
from ..._plan import Plan
from ..convert.arrays import extent
from ..gate.sizes import hint_for
from ..graph.nodes import results
from ..graph.put_back import rewritten
from ..runtime.options import SERVER, Options, context_of
from ..runtime.warn import logger, warn_once
from .graph_pass import Report, SinterPass, Taken

_JUDGED_ROWS = 8  # a decoding step of some sequences: parts are chosen for it
_WAIT_SECONDS = 300.0  # the longest wait for all plans


class ServerPass(CustomGraphPass):
    """Replaces parts of a graph by operators. If it fails, the graph stays as it was.

    Args:
        sizes: the attribute.
        applies: whether the graph that is being compiled is for such numbers of rows.
        options: see ``SinterPass``.

    Attributes:
        reports: one for each graph.
        sizes: the numbers of rows for which plans are made ahead.
    """

    def __init__(self, sizes: Sequence[int], applies: Callable[[], bool], options: Options = Options(prepare=SERVER)) -> None:
        self.reports: List[Report] = []
        self.sizes, self._applies, self._options = tuple(sizes), applies, options
        self._off = False
        self._pass = SinterPass(options, self.reports, rows=_JUDGED_ROWS)
        self._pending: List[Any] = []
        self._plans: List[Plan] = []

    def uuid(self) -> Any:
        try:
            return self._pass.uuid(), self.sizes, self._applies()
        except Exception as error:  # as in a call, which then leaves the graph; no other graph may be found by this key
            return f"{type(error).__name__}, {uuid.uuid4().hex}"

    def switch_off(self, reports: int) -> None:
        """Leaves all further graphs as they are, and forgets all reports but the first `reports`: their parts are not used."""
        self._off = True
        del self.reports[reports:]

    def __call__(self, graph: torch.fx.Graph) -> None:
        before = len(self.reports)
        try:
            if self._off or not self._applies():
                return
            error = rewritten(graph, lambda: self._take(graph, before))
        except Exception as unexpected:  # the graph is as it was
            error = unexpected
        if error is not None:
            del self.reports[before:]
            warn_once(f"a graph of the server keeps its own operators: {type(error).__name__}: {error}")

    def _take(self, graph: torch.fx.Graph, before: int) -> None:
        symbols = _symbols_of(graph)
        if len(symbols) > 1:
            raise ValueError(f"it has {len(symbols)} symbolic sizes ({', '.join(sorted(map(str, symbols)))}), must have one, its number of rows")
        self._pass(graph)
        for part in self.reports[before].taken:
            self._prepare(part)

    def _prepare(self, part: Taken) -> None:
        """Begins to build the part's plans. Its operator finds them."""
        if self._options.target is not None:  # nothing can be launched here
            return
        context, symbol = context_of(self._options, part.made.inputs[0].node.meta["val"].device), part.made.rows.symbol
        rows = [0] if symbol is None else [hint_for(size)(symbol) for size in self.sizes]
        self._pending += [context.prepare_async(part.made.chain, m) for m in rows]

    def wait(self) -> None:
        """Waits for all plans, and keeps them, so that operators need not load them again. An operator without a plan runs Inductor's code."""
        until = time.monotonic() + _WAIT_SECONDS
        for pending in self._pending:
            try:
                self._plans.append(pending.result(max(0.0, until - time.monotonic())))
            except (Error, TimeoutError) as error:
                logger.info("sinter: no plan ahead for a part of a graph: %s", error)
        self._pending.clear()


def _symbols_of(graph: torch.fx.Graph) -> Set[Any]:
    sizes = [extent(size) for val in results(list(graph.nodes)) for size in val.shape]
    return {symbol for size in sizes if not isinstance(size, int) for symbol in size.free_symbols}
