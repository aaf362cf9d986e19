"""Makes images channels last where Inductor will do so, before parts are found: a part then reads and writes them in that order."""

from __future__ import annotations

from typing import Any, Dict, List

import torch

from ..convert.arrays import DTYPES, HALVES
from ..convert.converter import target_of
from .nodes import reads_memory, value_of

_LAST = torch.channels_last


def lay_channels_last(graph: torch.fx.Graph) -> None:
    """Makes the images of a graph's convolutions channels last, and updates the strides of all values that follow.

    Inductor does it after this pass, by the same decision. The graph's results keep their strides. If strides cannot be computed, the
    graph stays as it was.
    """
    if not _inductor_will(graph):
        return
    from torch._inductor.inductor_prims import force_stride_order  # Inductor ignores a clone's memory format

    before: Dict[Any, Any] = {}
    added: List[Any] = []
    try:
        for node in list(graph.nodes):
            if _is_convolution(node) and not node.args[0].meta["val"].is_contiguous(memory_format=_LAST):
                image = node.args[0]
                val = image.meta["val"].clone(memory_format=_LAST)
                with graph.inserting_before(node):
                    laid = graph.call_function(force_stride_order, (image, val.stride()))
                laid.meta["val"] = val
                node.replace_input_with(image, laid)
                added.append(laid)
            _tell(graph, node, before, added)
    except Exception:  # an operator that fakes cannot tell
        _take_back(graph, before, added)


def tell_strides(graph: torch.fx.Graph, laid: List[Any]) -> None:
    """Updates the strides of all values that follow from `laid`. The graph's results keep their strides. If strides cannot be computed, the
    graph's metadata stays as it was."""
    before: Dict[Any, Any] = {node: node.meta["val"] for node in laid}
    added: List[Any] = []
    try:
        for node in list(graph.nodes) if laid else ():
            _tell(graph, node, before, added)
    except Exception:  # an operator that fakes cannot tell
        _take_back(graph, before, added)


def _tell(graph: torch.fx.Graph, node: Any, before: Dict[Any, Any], added: List[Any]) -> None:
    """Updates the strides of `node` from its operands. `before`: the earlier metadata of nodes whose strides have changed."""
    if node.op == "call_function" and any(i in before or i in added for i in node.all_input_nodes):
        made = value_of(node.target, node.args, node.kwargs)
        if _strides(made) != _strides(node.meta.get("val")):
            before[node], node.meta["val"] = node.meta["val"], made
    if node.op == "output":
        for result in [i for i in node.all_input_nodes if i in before and _strides(before[i]) != _strides(i.meta["val"])]:
            added.append(_as_it_was(graph, node, result, before[result]))


def _take_back(graph: torch.fx.Graph, before: Dict[Any, Any], added: List[Any]) -> None:
    for node, val in before.items():
        node.meta["val"] = val
    for laid in added:
        laid.replace_all_uses_with(laid.args[0])
        graph.erase_node(laid)


def _as_it_was(graph: torch.fx.Graph, output: Any, result: Any, val: Any) -> Any:
    """A copy of a result of the graph with the strides that it had."""
    if not val.is_contiguous():
        raise ValueError("a result that is no row-major tensor")
    with graph.inserting_before(output):
        laid = graph.call_function(torch.ops.aten.clone.default, (result,), {"memory_format": torch.contiguous_format})
    laid.meta["val"] = val
    output.replace_input_with(result, laid)
    return laid


def _inductor_will(graph: torch.fx.Graph) -> bool:
    from torch._inductor.graph import GraphLowering

    images = [node.args[0].meta["val"] for node in graph.nodes if _is_convolution(node)]
    if all(image.is_contiguous(memory_format=_LAST) for image in images):
        return False
    trained = any("partitioner_tag" in node.meta for node in graph.nodes)
    if trained or reads_memory(graph) or not any(DTYPES.get(str(image.dtype)) in HALVES for image in images):
        return False
    return GraphLowering.decide_layout_opt(graph.owning_module, is_inference=True)


def _is_convolution(node: Any) -> bool:
    return target_of(node) == "aten.convolution.default" and len(node.meta["val"].shape) == 4


def _strides(val: Any) -> Any:
    vals = val if isinstance(val, (list, tuple)) else [val]
    return [v.stride() if isinstance(v, torch.Tensor) else None for v in vals]
