"""``torch.ops.sinter.between_attentions``: all that lies between two attentions, for servers that compile their models."""

from __future__ import annotations

from functools import lru_cache
from typing import List, Tuple

import torch

from .._error import invalid
from ._between_chain import between_chain, check_weights
from ._ops import _DTYPES, launch, need_tensor, register, register_chain
from ._store import store


@lru_cache(maxsize=None)
def between_key(hidden: int, inner: int, columns: int, q: int, eps: float, dtype: torch.dtype, folded: bool) -> str:
    """The key of the registered chain of such a layer, with SiLU."""
    norms = (not folded, not folded)
    return register_chain(between_chain(hidden, inner, columns, q, norms, eps, "silu", _DTYPES[dtype]))


_Result = Tuple[torch.Tensor, torch.Tensor]


def _between_cuda(
    attended: torch.Tensor, stream: torch.Tensor, weights: List[torch.Tensor], eps: float, folded: bool = False
) -> _Result:
    """`weights`: o, norm, gate_up, down, next_norm, next, as of ``BetweenAttentions``.

    `folded`: both norms are multiplied into the matrices behind them, and are ones: no plan reads them.
    """
    _check(attended, stream, weights)
    o, norm, gate_up, down, next_norm, next = weights
    gate, up = gate_up.chunk(2)
    device, rows = stream.device.index, stream.shape[0]
    plan = store.find(device, between_key(len(norm), len(gate), len(next), o.shape[1], eps, o.dtype, folded), rows)
    if plan is None:
        return _between_by_torch(attended, stream, weights, eps)
    attended, stream = attended.contiguous(), stream.contiguous()
    result = torch.empty_like(stream), stream.new_empty((rows, len(next)))
    constants = (o, gate, up, down, next) if folded else (o, norm, gate, up, down, next_norm, next)
    buffers = (attended, stream, *constants, *result)
    launch(plan, tuple(buffer.data_ptr() for buffer in buffers), rows, device, pdl=True)
    return result


def _check(attended: torch.Tensor, stream: torch.Tensor, weights: List[torch.Tensor]) -> None:
    o, norm, gate_up, down, next_norm, next = _six(weights)
    for name, value in (("attended", attended), ("stream", stream)):
        need_tensor(value, name)
    if gate_up.dim() != 2:
        raise invalid(f"gate_up has shape {tuple(gate_up.shape)}: gate above up has two axes")
    gate, up = gate_up.tensor_split(2)
    check_weights(dict(o=o, norm=norm, gate=gate, up=up, down=down, next_norm=next_norm, next=next))
    if stream.dim() != 2:
        raise invalid(f"stream has shape {tuple(stream.shape)}: it has two axes")
    rows = stream.shape[0]
    for name, value, columns in (("attended", attended, o.shape[1]), ("stream", stream, o.shape[0])):
        if tuple(value.shape) != (rows, columns) or value.dtype != o.dtype or value.device != o.device:
            raise invalid(f"{name} is {value.dtype} {tuple(value.shape)} on {value.device}, not {o.dtype} {(rows, columns)}")


def _between_cpu(
    attended: torch.Tensor, stream: torch.Tensor, weights: List[torch.Tensor], eps: float, folded: bool = False
) -> _Result:
    _check(attended, stream, weights)
    return _between_by_torch(attended, stream, weights, eps)


def _between_by_torch(attended: torch.Tensor, stream: torch.Tensor, weights: List[torch.Tensor], eps: float) -> _Result:
    """By the kernels of the server's own where it has them."""
    o, norm, gate_up, down, next_norm, next = weights
    linear, settings, on_gpu = torch.nn.functional.linear, store.settings, stream.is_cuda
    fused, add_norm = (settings.silu_and_mul, settings.add_norm) if on_gpu else (None, None)
    if add_norm is None:
        add_norm = _add_norm
    else:
        stream = stream.clone()  # the caller's stays as it is
    x, stream = add_norm(linear(attended, o), stream, norm, eps)
    both = linear(x, gate_up)
    if fused is not None:
        inner = fused(both)
    else:
        gate, up = both.chunk(2, dim=-1)
        inner = torch.nn.functional.silu(gate) * up
    x, stream = add_norm(linear(inner, down), stream, next_norm, eps)
    return stream, linear(x, next)


def _add_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> _Result:
    total = residual + x
    return torch.nn.functional.rms_norm(total, weight.shape, weight, eps), total


def _between_fake(
    attended: torch.Tensor, stream: torch.Tensor, weights: List[torch.Tensor], eps: float, folded: bool = False
) -> _Result:
    return torch.empty_like(stream), stream.new_empty((stream.shape[0], _six(weights)[5].shape[0]))


def _six(weights: List[torch.Tensor]) -> List[torch.Tensor]:
    if len(weights) != 6:
        raise invalid(f"there are {len(weights)} weights, not o, norm, gate_up, down, next_norm and next")
    return weights


register(
    (
        (
            "between_attentions",
            "(Tensor attended, Tensor stream, Tensor[] weights, float eps, bool folded=False) -> (Tensor, Tensor)",
            {"CUDA": _between_cuda, "CPU": _between_cpu, "fake": _between_fake},
        ),
    )
)
