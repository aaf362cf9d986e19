"""Makes the weights of several linear layers contiguous in memory: an operator that reads all of them reads one matrix without a copy."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, FrozenSet, Sequence, Tuple

import torch
from torch import nn

from .warn import warn_once

_ALIGNED = 8  # rows: readers read 16 bytes at once
#: Names of linear layers that read one value, in the modules of transformers, timm and diffusers.
_NAMES = (
    *(("q_proj", "k_proj", "v_proj"), ("query", "key", "value"), ("q_lin", "k_lin", "v_lin"), ("to_q", "to_k", "to_v")),
    *(("q", "k", "v"), ("wq", "wk", "wv")),
)


def lay_beside(model: nn.Module) -> int:
    """Moves the weights of linear layers that read one value, such as queries, keys and values, so that they are contiguous in memory. Returns how
    many groups it moved.

    Each parameter remains the model's and keeps its values; its memory becomes a part of the group's. Other holders of the old memory, such as
    an earlier state dictionary or a captured CUDA graph, do not follow later changes. A group stays as it is if a weight is a part of a larger
    memory, shares its own with another parameter or a buffer of the model, is not a plain parameter, or differs from the others in type, device
    or columns. Sharing outside of the model is not detected.
    """
    moved = 0
    owners = Counter(map(_memory, filter(_is_plain, (*model.parameters(), *model.buffers()))))
    with torch.no_grad():
        for module in model.modules():
            for names in _NAMES:
                linears = [getattr(module, name, None) for name in names]
                if all(type(linear) is nn.Linear for linear in linears):
                    moved += _moved(linears, owners)
    return moved


def _is_plain(x: Any) -> bool:
    return type(x) in (torch.Tensor, nn.Parameter) and x.layout is torch.strided


def _memory(x: torch.Tensor) -> Tuple[torch.device, int]:
    return x.device, x.untyped_storage().data_ptr()


def _moved(linears: Sequence[Any], owners: Dict[Any, int]) -> bool:
    sets = [[linear.weight for linear in linears], [linear.bias for linear in linears]]
    if all(bias is None for bias in sets[1]):
        sets.pop()
    if not all(_may_move(tensors, owners) for tensors in sets):
        return False
    for tensors in sets:
        begin, joined = 0, torch.cat([tensor.detach() for tensor in tensors])
        for tensor in tensors:
            tensor.data = joined[begin : begin + len(tensor)]
            begin += len(tensor)
    return True


def _may_move(tensors: Sequence[Any], owners: Dict[Any, int]) -> bool:
    first = tensors[0]
    return all(
        type(t) is nn.Parameter
        and t.is_contiguous()
        and len(t) % _ALIGNED == 0
        and t.untyped_storage().nbytes() == t.nbytes
        and owners[_memory(t)] == 1
        and (t.dtype, t.device, t.shape[1:]) == (first.dtype, first.device, first.shape[1:])
        for t in tensors
    ) and len({t.data_ptr() for t in tensors}) == len(tensors)


def neighbours(inputs: Sequence[Any], weights: FrozenSet[int]) -> FrozenSet[Tuple[int, int]]:
    """Pairs of `weights` among `inputs`, by their positions: the second begins in memory where the first ends."""
    begins: Dict[Any, int] = {}
    ends: Dict[int, Any] = {}
    for i in weights:
        x: Any = inputs[i] if i < len(inputs) else None
        if type(x) in (torch.Tensor, nn.Parameter) and x.is_contiguous() and x.numel():
            memory = x.untyped_storage().data_ptr(), x.dtype, x.shape[1:]
            begins[memory, x.storage_offset()] = i
            ends[i] = memory, x.storage_offset() + x.numel()
    return frozenset((i, begins[end]) for i, end in ends.items() if end in begins)


def as_one(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """The tensors concatenated: a view if they are contiguous in memory, else a copy."""
    first = tensors[0]
    end = first.storage_offset()
    for x in tensors:
        if x.storage_offset() != end or x.untyped_storage().data_ptr() != first.untyped_storage().data_ptr() or not x.is_contiguous():
            warn_once("weights that lay behind each other when a graph was compiled no longer do: each call copies them")
            return torch.cat(list(tensors))
        end += x.numel()
    return first.as_strided((sum(len(x) for x in tensors), *first.shape[1:]), first.stride())
