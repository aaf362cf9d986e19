"""Parts whose results all overwrite inputs of the graph, such as an optimiser's step: the operator writes them there itself.

Inductor's graphs have such a write as a copy at their end. After an operator that returns new memory, the copy would read and write
all results once more.
"""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import torch

from ..convert.converter import target_of
from ..convert.foreach import is_list
from ..runtime import run_chain
from ..runtime.register import register

COPY = "aten.copy_.default"


def written_over(part: Sequence[Any]) -> Optional[Dict[Any, Any]]:
    """For a part of operators on lists: maps each result to the input of the graph that it overwrites, if nothing else reads either of them
    later. None if that does not hold for all results, or if the graph computes after its first write. Empty for any other part."""
    if not any(is_list(node) for node in part):
        return {}
    inside = set(part)
    found = {}
    if any(node.op == "call_function" and target_of(node) != COPY for node in _behind_first_write(part[0].graph)):
        return None
    for node in part:
        outside = [user for user in node.users if user not in inside]
        if not outside:
            continue
        copy = outside[0]
        if len(outside) > 1 or target_of(copy) != COPY or copy.args[1] is not node or copy.users:
            return None
        over = copy.args[0]
        same = all(getattr(over.meta["val"], name) == getattr(node.meta["val"], name) for name in ("shape", "dtype"))
        if over.op != "placeholder" or not same or any(user not in inside and user is not copy for user in over.users):
            return None
        found[node] = over
    return found


def first_write(graph: torch.fx.Graph) -> Any:
    """The first copy over an input, in a graph that has one: before it, every reader sees the inputs unchanged."""
    return next(node for node in graph.nodes if target_of(node) == COPY)


def _behind_first_write(graph: torch.fx.Graph) -> Iterator[Any]:
    return itertools.dropwhile(lambda node: target_of(node) != COPY, graph.nodes)


def _woven(inputs: List[torch.Tensor], written: List[torch.Tensor], chain: str) -> List[torch.Tensor]:
    """The chain's inputs in its order."""
    over = dict(zip(run_chain.carried(chain).over, written))
    left = iter(inputs)
    return [over[i] if i in over else next(left) for i in range(len(inputs) + len(written))]


def _into_inputs(run: Callable[..., List[torch.Tensor]]) -> Callable[..., None]:
    """The operator ``run_chain``, whose results are then in `written`."""

    def over(inputs: List[torch.Tensor], written: List[torch.Tensor], m: int, chain: str, how: str) -> None:
        results = run(_woven(inputs, written, chain), m, chain, how)
        with torch.no_grad():
            for result, x in zip(results, written):
                if result.data_ptr() != x.data_ptr():
                    x.copy_(result)

    return over


_SCHEMA = "(Tensor[] inputs, Tensor(a!)[] written, SymInt m, str chain, str how) -> ()"
register("run_chain_over", _SCHEMA, _into_inputs(run_chain._run_cuda), _into_inputs(run_chain._run_cpu), lambda *_: None)
