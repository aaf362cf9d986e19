"""``torch.ops.sinter.between_attentions``: the layers between two attentions, for servers that compile their models."""

from __future__ import annotations

import weakref
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..._error import Error, Status, invalid
from ..runtime.groups import AllReduce, split_of
from ..runtime.launch import launch
from ..runtime.register import HALVES, need_tensor, register
from ..runtime.registered_chain import register_chain
from ..runtime.store import store
from .between_chain import Extents, between_chain, check_quantizer, check_weights, extents_of, halves, in_order, scales_by_name
from .packed_matrix import PACKED, dequantized
from .scaled_linear import scaled_linear


@lru_cache(maxsize=None)
def between_key(of: Extents, eps: float, dtype: torch.dtype, folded: bool, ranks: int = 1, quantizer: str = "") -> str:
    """The key of the registered chain of such a layer, with SiLU. If the layer is split over `ranks`, of one rank's part."""
    norms = (not folded, not folded)
    return register_chain(between_chain(*of, norms, eps, "silu", HALVES[dtype], ranks, quantizer))


_Result = Tuple[torch.Tensor, torch.Tensor]


class Call(NamedTuple):
    """The operator's arguments.

    Attributes:
        weights: o, norm, gate_up, down, next_norm, next, as in ``BetweenAttentions``.
        folded: both norms are multiplied into the matrices that follow them, and are ones: no plan reads them.
        group: the name of the group over which the layer is split. Nothing is compared between its ranks here, so only plans that they have
            compared are used.
        scales: of o, gate_up, down and next, if these are codes, see ``scales_by_name``.
        quantizer: one of ``QUANTIZERS`` or ``PACKED``.
    """

    attended: torch.Tensor
    stream: torch.Tensor
    weights: List[torch.Tensor]
    eps: float
    folded: bool = False
    group: str = ""
    scales: Optional[Sequence[torch.Tensor]] = None
    quantizer: str = ""


def _between_cuda(*given: Any) -> _Result:
    of = Call(*given)
    attended, stream = of.attended, of.stream
    _need_tensors(attended, stream)
    over = split_of(of.group) if of.group else None
    layer = _layer(of.weights, of.eps, of.folded, 1 if over is None else over.group.size, of.scales or (), of.quantizer)
    rows = _check_rows(attended, stream, layer.q, of.weights[1])
    device = stream.device.index
    plan = store.find(device, layer.key, rows) if over is None else store.find(device, layer.key, rows, ahead())
    if plan is None or over is not None and not over.has_met(plan):
        return by_torch(of)
    attended, stream = attended.contiguous(), stream.contiguous()
    result = torch.empty_like(stream), stream.new_empty((rows, layer.columns))
    buffers = (attended.data_ptr(), stream.data_ptr(), *layer.constants, result[0].data_ptr(), result[1].data_ptr())
    launch(plan, buffers, rows, device, pdl=True, split=over)
    return result


def ahead() -> Tuple[int, int]:
    """The numbers of rows whose plans are prepared ahead of calls. Ranks must switch to a plan in the same call, but background builds end
    independently on each rank."""
    return 1, store.settings.sizes[-1] if store.settings.sizes else 2**31 - 1


class _Layer(NamedTuple):
    """The checked properties of a layer's weights; without this cache the host would check them for 40 us in each call."""

    weights: Tuple["weakref.ref[torch.Tensor]", ...]  # and their scales
    addresses: Tuple[int, ...]  # of all weights and scales
    shapes: Tuple[torch.Size, ...]
    dtypes: Tuple[torch.dtype, ...]
    constants: Tuple[int, ...]  # addresses of those that the chain reads
    eps: float
    folded: bool
    ranks: int
    quantizer: str
    key: str  # the registered chain's
    q: int
    columns: int


#: By the identity of the first weight. An entry is compared with all six weights, so a reused identity is harmless.
_layers: Dict[int, _Layer] = {}
_MOST_LAYERS = 4096


def _layer(
    weights: List[torch.Tensor], eps: float, folded: bool, ranks: int = 1, scales: Sequence[torch.Tensor] = (), quantizer: str = ""
) -> _Layer:
    """Checks the weights, once as long as they are the same tensors with the same form and memory: their ``data`` can be replaced."""
    found = _layers.get(id(weights[0])) if len(weights) == 6 else None
    if found is not None and (found.eps, found.folded, found.ranks, found.quantizer) == (eps, folded, ranks, quantizer):
        given = (*weights, *scales) if scales else weights
        if len(given) == len(found.weights) and _are_same(given, found):
            return found
    _check_weights(weights, scales, quantizer)
    o, norm, gate_up, _, _, next = weights
    held, of = (*weights, *scales), extents_of(o, gate_up, next, quantizer)
    key = between_key(of, eps, norm.dtype, folded, ranks, quantizer)
    found = _Layer(
        tuple(weakref.ref(weight) for weight in held), tuple(weight.data_ptr() for weight in held), tuple(weight.shape for weight in held),
        tuple(weight.dtype for weight in held), _constants(weights, scales, folded, quantizer), eps, folded, ranks, quantizer, key,
        of.q, of.columns,
    )  # fmt: skip
    if len(_layers) >= _MOST_LAYERS:
        _layers.clear()
    _layers[id(o)] = found
    return found


def _are_same(given: Sequence[torch.Tensor], found: _Layer) -> bool:
    for weight, kept, address, shape, dtype in zip(given, found.weights, found.addresses, found.shapes, found.dtypes):
        if kept() is not weight or weight.data_ptr() != address:
            return False
        if not weight.is_contiguous() or weight.dtype is not dtype or weight.shape != shape:
            return False
    return True


def _constants(weights: Sequence[torch.Tensor], scales: Sequence[torch.Tensor], folded: bool, quantizer: str = "") -> Tuple[int, ...]:
    """Addresses of the weights that the chain reads, in its order."""
    named = _named(weights, quantizer)
    if folded:
        del named["norm"], named["next_norm"]
    return tuple(one.data_ptr() for one in in_order(named, scales_by_name(scales, quantizer) if scales else {}))


def _named(weights: Sequence[torch.Tensor], quantizer: str) -> Dict[str, torch.Tensor]:
    o, norm, gate_up, down, next_norm, next = weights
    gate, up = halves(gate_up, quantizer)
    return dict(o=o, norm=norm, gate=gate, up=up, down=down, next_norm=next_norm, next=next)


def _check_weights(weights: List[torch.Tensor], scales: Sequence[torch.Tensor] = (), quantizer: str = "") -> None:
    gate_up = _six(weights)[2]
    check_quantizer(quantizer)
    if scales and not quantizer:
        raise invalid(f"there are {len(scales)} scales with quantizer '': give both, or neither")
    if gate_up.dim() != 2:
        raise invalid(f"gate_up has shape {tuple(gate_up.shape)}: gate above up has two axes")
    check_weights(_named(weights, quantizer), scales_by_name(scales, quantizer) if quantizer else {}, quantizer)


def _need_tensors(attended: torch.Tensor, stream: torch.Tensor) -> None:
    need_tensor(attended, "attended")
    need_tensor(stream, "stream")


def _check_rows(attended: torch.Tensor, stream: torch.Tensor, q: int, norm: torch.Tensor) -> int:
    """The number of rows."""
    if stream.dim() != 2:
        raise invalid(f"stream has shape {tuple(stream.shape)}: it has two axes")
    rows: int = stream.shape[0]
    for name, value, columns in (("attended", attended, q), ("stream", stream, norm.shape[0])):
        if value.shape != (rows, columns) or value.dtype != norm.dtype or value.device != norm.device:
            raise invalid(f"{name} is {value.dtype} {tuple(value.shape)} on {value.device}, not {norm.dtype} {(rows, columns)} on {norm.device}")
    return rows


def _between_cpu(*given: Any) -> _Result:
    of = Call(*given)
    _need_tensors(of.attended, of.stream)
    _check_weights(of.weights, of.scales or (), of.quantizer)
    _check_rows(of.attended, of.stream, _extents(of).q, of.weights[1])
    return by_torch(of)


def _extents(of: Call) -> Extents:
    o, _, gate_up, _, _, next = _six(of.weights)
    return extents_of(o, gate_up, next, of.quantizer)


def by_torch(of: Call) -> _Result:
    """Computes by the server's own kernels, if it has them."""
    attended, stream, weights, eps, _, group, scales, quantizer = of
    whole = sum_over(group)
    o, norm, gate_up, down, next_norm, next = weights
    settings, on_gpu = store.settings, stream.is_cuda
    fused, add_norm = (settings.silu_and_mul, settings.add_norm) if on_gpu else (None, None)
    of_matrices, more = (scales or ())[:4], (scales or ())[4:]  # more: given scales of rows, or zeros
    scales_of = {id(matrix): pair for matrix, *pair in zip_longest((o, gate_up, down, next), of_matrices, more)}

    def linear(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
        if not scales:
            return torch.nn.functional.linear(x, matrix)
        own: Optional[torch.Tensor] = settings.linear(x, matrix) if settings.linear is not None else None
        if own is not None:
            return own
        scale, further = scales_of[id(matrix)]
        if quantizer in PACKED:
            return torch.nn.functional.linear(x, dequantized(matrix, scale, PACKED[quantizer], further))
        return scaled_linear(x, matrix, scale, quantizer, further)

    if add_norm is None:
        add_norm = _add_norm
    else:
        stream = stream.clone()  # the caller's tensor stays as it is
    x, stream = add_norm(whole(linear(attended, o)), stream, norm, eps)
    both = linear(x, gate_up)
    if fused is not None:
        inner = fused(both)
    else:
        gate, up = both.chunk(2, dim=-1)
        inner = torch.nn.functional.silu(gate) * up
    x, stream = add_norm(whole(linear(inner, down)), stream, next_norm, eps)
    return stream, linear(x, next)


def sum_over(group: str) -> AllReduce:
    """The function that sums over a group's ranks without a plan; without a group, nothing is summed.

    Raises:
        Error: FAILED_PRECONDITION for a group over which only plans can sum.
    """
    found = split_of(group).all_reduce if group else lambda x: x
    if found is None:
        raise Error(Status.FAILED_PRECONDITION, f"no plan that all ranks of {group!r} have, and nothing else sums over it")
    return found


def _add_norm(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float) -> _Result:
    total = residual + x
    return torch.nn.functional.rms_norm(total, weight.shape, weight, eps), total


def _between_fake(*given: Any) -> _Result:
    of = Call(*given)
    return torch.empty_like(of.stream), of.stream.new_empty((of.stream.shape[0], _extents(of).columns))


def _six(weights: List[torch.Tensor]) -> List[torch.Tensor]:
    if len(weights) != 6:
        raise invalid(f"there are {len(weights)} weights, not o, norm, gate_up, down, next_norm and next")
    return weights


register(
    "between_attentions",
    "(Tensor attended, Tensor stream, Tensor[] weights, float eps, bool folded=False, str group='', Tensor[]? scales=None, "
    "str quantizer='') -> (Tensor, Tensor)",
    _between_cuda,
    _between_cpu,
    _between_fake,
)
