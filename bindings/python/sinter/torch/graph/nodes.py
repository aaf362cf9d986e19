"""What rewrites of a graph share: calls that are added with their values, nodes that are erased, and what a node is."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

from ..convert.converter import CAST, target_of

_OPTIONS = {"alpha", "approximate", "rounding_mode"}  # keyword arguments of elementwise ops


def add_call(graph: torch.fx.Graph, target: Any, *arguments: Any, **named: Any) -> torch.fx.Node:
    """Inserts a call of an operator at the graph's insertion point, with its value. If the operator raises, the graph is as before."""
    val = value_of(target, arguments, named)
    made = graph.call_function(target, arguments, named)
    made.meta["val"] = val
    return made


def add_again(graph: torch.fx.Graph, node: Any, operand: Callable[[Any], Any]) -> torch.fx.Node:
    """Inserts the call of `node` again, with other operands: `operand` returns the one for each of its own."""
    arguments, named = torch.fx.node.map_arg((node.args, node.kwargs), operand)
    return add_call(graph, node.target, *arguments, **named)


def as_extents(graph: torch.fx.Graph, node: Any, extents: Sequence[Any]) -> torch.fx.Node:
    """`node` with these extents: itself, or a reshape."""
    return node if list(node.meta["val"].shape) == list(extents) else add_call(graph, torch.ops.aten.reshape.default, node, list(extents))


def as_type(graph: torch.fx.Graph, node: Any, dtype: torch.dtype) -> torch.fx.Node:
    """`node` in this type: itself, or a cast."""
    return node if node.meta["val"].dtype == dtype else add_call(graph, torch.ops.prims.convert_element_type.default, node, dtype)


def value_of(target: Any, arguments: Any, named: Optional[Dict[str, Any]] = None) -> Any:
    """An operator's result for nodes: a fake tensor for fake ones, even if the operator decomposes into operators without operands."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses.fake_tensor import FakeTensor

    values, named_values = torch.utils._pytree.tree_map(value_at, (tuple(arguments), named or {}))
    leaves = torch.utils._pytree.tree_leaves((values, named_values))
    mode: Any = next((leaf.fake_mode for leaf in leaves if isinstance(leaf, FakeTensor)), contextlib.nullcontext())
    with mode, enable_python_dispatcher():
        return target(*values, **named_values)


def value_at(value: Any) -> Any:
    """The value of a node; any other value as it is."""
    return value.meta["val"] if isinstance(value, torch.fx.Node) else value


def is_elementwise(node: Any) -> bool:
    """Whether a graph may compute a node again from other operands, each element from one element of each. A node that draws random
    numbers, or that depends on an operand's memory order, does not qualify."""
    tags = getattr(node.target, "tags", ())
    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor) or node.is_impure() or not _OPTIONS.issuperset(node.kwargs):
        return False
    return target_of(node) == CAST or torch.Tag.pointwise in tags and torch.Tag.nondeterministic_seeded not in tags


def memory_of(value: Any) -> Optional[int]:
    """An identifier of the memory that a node's value is in. For several tensors, of the first; None for a value without memory."""
    val = value[0] if isinstance(value, (list, tuple)) and value else value
    return val.untyped_storage()._cdata if isinstance(val, torch.Tensor) and val.layout == torch.strided else None


def results(nodes: Sequence[Any]) -> List[Any]:
    """The values of nodes that are tensors."""
    return [node.meta["val"] for node in nodes if isinstance(node.meta.get("val"), torch.Tensor)]


def reads_memory(graph: torch.fx.Graph) -> bool:
    """Whether an operator of the graph reads memory, not values."""
    return any("as_strided" in target_of(node) for node in graph.nodes)


def erase_unread(graph: torch.fx.Graph, node: Any, may: Callable[[Any], bool] = lambda node: not node.is_impure()) -> None:
    """Erases a node that nobody reads, then the nodes of its operands that nobody reads any longer. `may`: whether a node may be erased."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if each.op == "call_function" and not each._erased and not each.users and may(each):
            operands = list(each.all_input_nodes)
            graph.erase_node(each)
            waiting.extend(operands)
