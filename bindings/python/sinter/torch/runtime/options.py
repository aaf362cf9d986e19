"""The caller's options for the backend, and the context that plans for them."""

from __future__ import annotations

from typing import Dict, NamedTuple, Optional, Union

import torch

from ..._context import Context
from .store import store


#: ``Options.prepare`` for a server's graphs, which run one after another on one stream: captured plans share its workspace, which holds its
#: zeros, and may begin while the kernel ahead ends. Ids that such a graph gets as an input are positions, never negative.
SERVER = "server"

#: Values of ``Options.prepare`` with which the pass and the first call wait for plans.
WAITING = ("block", SERVER)


class Options(NamedTuple):
    """The options that ``torch.compile(.., options=..)`` passes to the backend.

    Attributes:
        prepare: "background": torch computes until plans are there; "block": the first call waits for them. ``SERVER``: it waits too.
        verify: each part's results are compared with torch's in the same graph.
        target: a chip by name, on a machine without one: tensors on the CPU, plans for that chip, torch computes.
        measure: the pass runs both the plan and Inductor's code of each part, and their measured times decide, not predictions. A number:
            before that, so many candidates are measured for each part's plan.
    """

    prepare: str = "background"
    verify: bool = False
    measure: Union[bool, int] = False
    target: Optional[str] = None

    @property
    def candidates(self) -> int:
        """How many candidates are measured for a part's plan; 0: prediction chooses it, unless the context says otherwise."""
        return 0 if isinstance(self.measure, bool) else self.measure


def candidates_in(context: Context, candidates: int) -> int:
    """How many candidates a prepare in `context` may measure: 0 if a tuning set decides."""
    return 0 if candidates == 0 or context.tuning_digest.strip("0") else candidates


def context_of(options: Options, device: torch.device) -> Context:
    return store.context(device.index or 0) if options.target is None else target_context(options.target)


_targets: Dict[str, Context] = {}
store.when_dropped(_targets.clear)


def target_context(name: str) -> Context:
    """A context that plans for a chip by its name, without a GPU."""
    if name not in _targets:
        _targets[name] = Context(target=name)
    return _targets[name]
