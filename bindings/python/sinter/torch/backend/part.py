"""A part of a graph, while it is decided whether it becomes an operator, and what its nodes determine."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence

from ..._plan import Plan
from ..convert.arrays import HALVES, Rows
from ..convert.converter import Converted
from ..graph.nodes import results
from ..runtime.verify import BOUNDS
from .library_plans import Asked


class Part(NamedTuple):
    """Nodes, their chain, M, the library's answer, the time of Inductor's kernels, and the plan once it is judged."""

    nodes: List[Any]
    made: Converted
    m: int
    asked: Asked
    limit_us: float = 0.0
    plan: Optional[Plan] = None

    @property
    def expected_us(self) -> float:
        """The plan's expected time; 0 if its search is not done."""
        return self.asked.expected_us


def alone(node: Any) -> List[Any]:
    """A node of several values, and the nodes that pick from it."""
    return [node, *node.users]


def symbol_of(nodes: Sequence[Any]) -> Any:
    """The product of symbols that most results are rows of; None where all extents are numbers."""
    return Rows.of([val.shape for val in results(nodes)]).symbol


def rows_of(nodes: Sequence[Any]) -> Rows:
    """The rows of the nodes' results; if no result has a symbol, the rows of the values that they read."""
    symbol = symbol_of(nodes)
    return Rows(symbol) if symbol is not None else Rows.of([val.shape for node in nodes for val in results(node.all_input_nodes)])


def bound_of(nodes: Sequence[Any]) -> float:
    """The loosest of the parts' types."""
    names = {str(val.dtype) for node in nodes for i in (node, *node.all_input_nodes) for val in results([i])}
    narrow = [dtype for dtype in HALVES if {"bf16": "torch.bfloat16", "f16": "torch.float16"}[dtype] in names]
    return max((BOUNDS[dtype] for dtype in narrow), default=BOUNDS["f32"])
