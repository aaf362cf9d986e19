"""Joins products of one value by several frozen weights into one product with views as results: queries, keys and values of an attention."""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Optional, Sequence, Tuple

import torch

from ..convert.arrays import DTYPES, HALVES
from ..convert.converter import target_of
from ..convert.op_table import is_view
from ..runtime.warn import warn_once
from .channels_last import tell_strides
from .nodes import add_call, reads_memory

_ALIGNED = 8  # columns: readers of a part read 16 bytes at once
MOST_JOINED = 4  # products in one: if all layers of a decoder read one value, the joined result would live until the last layer
_PIECES = ("aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default", "aten.unbind.int")


def joining(compile_graph: Callable[..., Any], given: Iterable[Any]) -> Callable[..., Any]:
    """A function that joins the products of a frozen graph and passes the graph to `compile_graph`. It is not a pass: Inductor's cache looks up
    frozen weights in the graph's module, in each process, so they must be there before the lookup. `given`: the model's tensors."""
    addresses = frozenset(x.data_ptr() for x in given if type(x) in (torch.Tensor, torch.nn.Parameter) and x.layout is torch.strided)

    def joined(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **more: Any) -> Any:
        try:
            join_products(gm.graph, addresses)
            gm.recompile()
        except Exception as error:  # the model runs after any error
            warn_once(f"products of frozen weights stay apart: {type(error).__name__}: {error}")
        return compile_graph(gm, example_inputs, **more)

    return joined


def join_products(graph: torch.fx.Graph, given: FrozenSet[int]) -> None:
    """Joins products whose weights Inductor's ``freezing`` made constants of the graph's module, with any numbers of columns.

    Before that, Inductor joins two or three of equal extents. `given`: addresses of the model's own tensors.
    """
    if reads_memory(graph):
        return
    _lay_as_linear(graph, given)
    groups: Dict[Any, List[Any]] = {}
    for node in graph.nodes:
        key = _shared(node)
        if key is not None:
            groups.setdefault(key, []).append(node)
    for group in groups.values():
        if 1 < len(group) <= MOST_JOINED:
            _join(graph, group)
    tell_parts(graph)


def tell_parts(graph: torch.fx.Graph) -> None:
    """Updates the strides of values that follow from parts of joined products: Inductor keeps the earlier strides where it joins."""
    if not reads_memory(graph):
        tell_strides(graph, [node for node in graph.nodes if _is_part(node)])


def _lay_as_linear(graph: torch.fx.Graph, given: FrozenSet[int]) -> None:
    """Stores weights that Inductor joined in the order of a linear layer's weight, [columns, depth]. A kernel then takes gate and up in one
    weight as a pair, and their product can be joined with others. Inductor's are [depth, columns]. The model's own stay as they are."""
    module = graph.owning_module
    for node in list(graph.nodes):
        weight = operands(node)[1] if _is_product(node) else None
        if weight is None or weight.op != "get_attr" or any(target_of(user) not in _PIECES for user in node.users):
            continue
        val, value = weight.meta["val"], getattr(module, str(weight.target))
        if val.stride() != (val.shape[1], 1) or val.shape[0] == 1 or value.data_ptr() in given:
            continue
        with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
            value = value.t().contiguous().t()
        with graph.inserting_before(weight):
            laid = _constant(graph, value, val.t().contiguous().t())
        node.replace_input_with(weight, laid)
        if not weight.users:
            graph.erase_node(weight)


def _is_product(node: Any) -> bool:
    return target_of(node) in ("aten.mm.default", "aten.addmm.default") and not node.kwargs


def _is_part(node: Any) -> bool:
    """Whether a node is a slice of the columns of a product with a frozen weight."""
    if target_of(node) != "aten.slice.Tensor" or not _is_product(node.args[0]) or operands(node.args[0])[1].op != "get_attr":
        return False
    return all(isinstance(size, int) for size in node.meta["val"].shape)


def operands(node: Any) -> "Tuple[Any, Any, Optional[Any]]":
    """x, weight and bias."""
    *bias, x, weight = node.args
    return x, weight, bias[0] if bias else None


def _shared(node: Any) -> Any:
    """A key that is equal for products that can be joined; None for one that cannot."""
    if not may_join(node):
        return None
    x, weight, bias = operands(node)
    frozen = all(i is None or i.op == "get_attr" and isinstance(i.meta.get("val"), torch.Tensor) for i in (weight, bias))
    return (x, bias is None, weight.meta["val"].stride()[0] == 1) if frozen else None


def may_join(node: Any) -> bool:
    """Whether a node is a product of 16 bits whose columns may be a part of a larger product's."""
    if not _is_product(node) or DTYPES.get(str(node.meta["val"].dtype)) not in HALVES:
        return False
    shape, bias = node.meta["val"].shape, operands(node)[2]
    if any(not isinstance(size, int) for size in shape) or shape[1] % _ALIGNED or _is_result(node):
        return False
    return bias is None or bias.meta["val"].shape == shape[1:]


def _is_result(node: Any) -> bool:
    """Whether a node is an output of the graph; a part needs a copy for that."""
    views = [user for user in node.users if target_of(user) in _PIECES or is_view(user)]
    return any(user.op == "output" for user in node.users) or any(map(_is_result, views))


def _join(graph: torch.fx.Graph, group: List[Any]) -> None:
    first = group[0]
    x, _, bias = operands(first)
    weights = [operands(node)[1] for node in group]
    biases = [operands(node)[2] for node in group if bias is not None]
    with graph.inserting_before(first):
        columns_apart = weights[0].meta["val"].stride()[0] == 1  # the order of nn.Linear
        given = [x, _beside(graph, weights, 1, columns_apart)]
        if bias is not None:
            given.insert(0, _beside(graph, biases, 0, False))
        joined = add_call(graph, first.target, *given)
    parts_of(graph, joined, group)
    for constant in dict.fromkeys(weights + biases):
        if not constant.users:
            graph.erase_node(constant)


def parts_of(graph: torch.fx.Graph, product: Any, group: List[Any]) -> List[Any]:
    """Replaces the products of a group by slices of the columns of `product`, which computes all of them. Returns the slices."""
    begin, parts = 0, []
    for node in group:
        end = begin + node.meta["val"].shape[1]
        with graph.inserting_before(node):
            parts.append(add_call(graph, torch.ops.aten.slice.Tensor, product, 1, begin, end))
        node.replace_all_uses_with(parts[-1])
        graph.erase_node(node)
        begin = end
    return parts


def _beside(graph: torch.fx.Graph, constants: List[Any], axis: int, transposed: bool) -> Any:
    """A constant of the graph's module that holds `constants` side by side."""
    module = graph.owning_module

    def join(tensors: List[Any]) -> Any:
        return torch.cat([tensor.t() for tensor in tensors], 1 - axis).t() if transposed else torch.cat(tensors, axis)

    with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
        value = join([getattr(module, str(node.target)) for node in constants])
    return _constant(graph, value, join([node.meta["val"] for node in constants]))


def _constant(graph: torch.fx.Graph, value: torch.Tensor, val: Any) -> Any:
    """A constant of the graph's module, at the graph's insertion point; `val`: its metadata."""
    module = graph.owning_module
    name = f"_sinter_joined{sum(name.startswith('_sinter_joined') for name in module._buffers)}"
    value._is_frozen_param = True  # type: ignore[attr-defined]  # Inductor marks its own in this way
    module.register_buffer(name, value)
    made = graph.create_node("get_attr", name)
    made.meta["val"] = val
    return made
