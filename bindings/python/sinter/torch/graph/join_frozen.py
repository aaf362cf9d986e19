"""Products of one value by several frozen weights as one product, whose parts are views: queries, keys and values of an attention."""

from __future__ import annotations

from typing import Any, Callable, Dict, FrozenSet, Iterable, List, Optional, Sequence, Tuple

import torch

from ..convert.arrays import DTYPES, HALVES
from ..convert.aten import TABLE
from ..convert.converter import target_of
from ..runtime.warn import warn_once
from .channels_last import tell_strides

_ALIGNED = 8  # columns: whoever reads a part reads 16 bytes at once
_MOST = 4  # products in one: what reads one value in all layers of a decoder would live until the last
_PIECES = ("aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default", "aten.unbind.int")


def joining(compile_graph: Callable[..., Any], given: Iterable[Any]) -> Callable[..., Any]:
    """What joins the products of a frozen graph and gives it to `compile_graph`. It is no pass: Inductor's cache looks frozen weights
    up in the graph's module, in each process, so they must be there before it is asked. `given`: the model's tensors."""
    addresses = frozenset(x.data_ptr() for x in given if type(x) in (torch.Tensor, torch.nn.Parameter) and x.layout is torch.strided)

    def joined(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **more: Any) -> Any:
        try:
            join_products(gm.graph, addresses)
            gm.recompile()
        except Exception as error:  # whatever it is, the model runs
            warn_once(f"products of frozen weights stay apart: {type(error).__name__}: {error}")
        return compile_graph(gm, example_inputs, **more)

    return joined


def join_products(graph: torch.fx.Graph, given: FrozenSet[int]) -> None:
    """Joins them where Inductor's ``freezing`` made weights constants of the graph's module, whatever their numbers of columns.

    Inductor joins two or three of equal extents before. `given`: where the model's own tensors lie.
    """
    if any("as_strided" in target_of(node) for node in graph.nodes):  # it reads memory, not values
        return
    _lay_as_linear(graph, given)
    groups: Dict[Any, List[Any]] = {}
    for node in graph.nodes:
        key = _shared(node)
        if key is not None:
            groups.setdefault(key, []).append(node)
    for group in groups.values():
        if 1 < len(group) <= _MOST:
            _join(graph, group)
    tell_parts(graph)


def tell_parts(graph: torch.fx.Graph) -> None:
    """Says how values behind parts of joined products lie: Inductor, where it joins, says what was so before."""
    if not any("as_strided" in target_of(node) for node in graph.nodes):
        tell_strides(graph, [node for node in graph.nodes if _is_part(node)])


def _lay_as_linear(graph: torch.fx.Graph, given: FrozenSet[int]) -> None:
    """Lays weights that Inductor joined as a linear layer has its own, [columns, depth] in memory: gate and up in one weight are then a
    pair in a kernel, and their product may be joined with others. Inductor's are [depth, columns]. The model's own stay as they are."""
    module = graph.owning_module
    for node in list(graph.nodes):
        weight = _operands(node)[1] if _is_product(node) else None
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
    """Columns of a product of a frozen weight."""
    if target_of(node) != "aten.slice.Tensor" or not _is_product(node.args[0]) or _operands(node.args[0])[1].op != "get_attr":
        return False
    return all(isinstance(size, int) for size in node.meta["val"].shape)


def _operands(node: Any) -> "Tuple[Any, Any, Optional[Any]]":
    """x, weight and bias."""
    *bias, x, weight = node.args
    return x, weight, bias[0] if bias else None


def _shared(node: Any) -> Any:
    """What products have in common that may be joined; None for one that may not."""
    if not _is_product(node):
        return None
    x, weight, bias = _operands(node)
    val = node.meta["val"]
    frozen = all(i is None or i.op == "get_attr" and isinstance(i.meta.get("val"), torch.Tensor) for i in (weight, bias))
    if not frozen or DTYPES.get(str(val.dtype)) not in HALVES or any(not isinstance(size, int) for size in val.shape):
        return None
    if val.shape[1] % _ALIGNED or bias is not None and bias.meta["val"].shape != val.shape[1:] or _is_result(node):
        return None
    return x, bias is None, weight.meta["val"].stride()[0] == 1


def _is_result(node: Any) -> bool:
    """Whether the graph gives it out, which takes a copy of a part."""
    views = [user for user in node.users if target_of(user) in _PIECES or target_of(user) in TABLE and TABLE[target_of(user)].view]
    return any(user.op == "output" for user in node.users) or any(map(_is_result, views))


def _join(graph: torch.fx.Graph, group: List[Any]) -> None:
    first = group[0]
    x, _, bias = _operands(first)
    weights = [_operands(node)[1] for node in group]
    biases = [_operands(node)[2] for node in group if bias is not None]
    with graph.inserting_before(first):
        columns_apart = weights[0].meta["val"].stride()[0] == 1  # as nn.Linear has them
        operands = [x, _beside(graph, weights, 1, columns_apart)]
        if bias is not None:
            operands.insert(0, _beside(graph, biases, 0, False))
        joined = graph.call_function(first.target, tuple(operands))
        joined.meta["val"] = first.target(*(i.meta["val"] for i in operands))
    begin = 0
    for node in group:
        end = begin + node.meta["val"].shape[1]
        with graph.inserting_before(node):
            part = graph.call_function(torch.ops.aten.slice.Tensor, (joined, 1, begin, end))
        part.meta["val"] = torch.ops.aten.slice.Tensor(joined.meta["val"], 1, begin, end)
        node.replace_all_uses_with(part)
        graph.erase_node(node)
        begin = end
    for constant in dict.fromkeys(weights + biases):
        if not constant.users:
            graph.erase_node(constant)


def _beside(graph: torch.fx.Graph, constants: List[Any], axis: int, transposed: bool) -> Any:
    """A constant of the graph's module that holds `constants` side by side."""
    module = graph.owning_module

    def join(tensors: List[Any]) -> Any:
        return torch.cat([tensor.t() for tensor in tensors], 1 - axis).t() if transposed else torch.cat(tensors, axis)

    with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
        value = join([getattr(module, str(node.target)) for node in constants])
    return _constant(graph, value, join([node.meta["val"] for node in constants]))


def _constant(graph: torch.fx.Graph, value: torch.Tensor, val: Any) -> Any:
    """A constant of the graph's module, at the graph's insertion point; `val`: what is told of it."""
    module = graph.owning_module
    name = f"_sinter_joined{sum(name.startswith('_sinter_joined') for name in module._buffers)}"
    value._is_frozen_param = True  # type: ignore[attr-defined]  # as Inductor marks its own
    module.register_buffer(name, value)
    made = graph.create_node("get_attr", name)
    made.meta["val"] = val
    return made
