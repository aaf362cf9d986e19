"""What the backward pass would compare with a maximum is kept from the forward pass.

The gradient of ``amax`` is shared by the elements that equal the maximum: ``eq(x, amax(x))``, divided by how many there are. Where x is
computed again in the backward pass, by other kernels than those that computed the maximum, no element may equal it, and the gradient is
infinite. So x is kept, and with it the comparison, which then costs less to keep.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.utils.checkpoint import CheckpointPolicy

_EXTREMES = {torch.ops.aten.amax.default, torch.ops.aten.amin.default, torch.ops.aten.max.default, torch.ops.aten.min.default}
_VIEWS = {
    torch.ops.aten.alias.default,
    torch.ops.aten.detach.default,
    torch.ops.aten.expand.default,
    torch.ops.aten.reshape.default,
    torch.ops.aten.squeeze.dim,
    torch.ops.aten.unsqueeze.default,
    torch.ops.aten.view.default,
}


def _source(node: Any) -> Any:
    """What a view is a view of."""
    while isinstance(node, torch.fx.Node) and node.target in _VIEWS:
        node = node.args[0]
    return node


class KeepCompared(CustomGraphPass):
    """The pass over forward and backward together, behind the caller's `first`."""

    def __init__(self, first: Optional[Callable[[torch.fx.Graph], Any]]) -> None:
        self.first = first

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self.first is not None:
            self.first(graph)
        for node in graph.nodes:
            if node.target is not torch.ops.aten.eq.Tensor:
                continue
            for compared, extreme in (node.args, node.args[::-1]):
                found = _source(extreme)
                if isinstance(found, torch.fx.Node) and found.target in _EXTREMES and _source(found.args[0]) is _source(compared):
                    _source(compared).meta["recompute"] = CheckpointPolicy.MUST_SAVE

    def uuid(self) -> Any:
        """None, which keeps graphs out of Inductor's cache, where the caller's pass has none."""
        if self.first is None:
            return "sinter keeps what is compared with maxima"
        other = self.first.uuid() if isinstance(self.first, CustomGraphPass) else None
        return None if other is None else ("sinter", other)
