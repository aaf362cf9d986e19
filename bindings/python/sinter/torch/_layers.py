"""Decoder layers: all that lies between two attentions, as one plan."""

from __future__ import annotations

from functools import lru_cache
from typing import Dict, List, Optional, Sequence, Tuple

import torch

from .._builder import Builder, Value
from .._chain import Chain
from .._error import invalid
from .._operators import gelu, relu, rmsnorm, silu
from .._shape import M, integer
from ._ops import _DTYPES, launch, register, register_chain
from ._store import store

_ACTIVATIONS = {"silu": silu, "gelu_tanh": gelu, "gelu_erf": lambda x: gelu(x, "erf"), "relu": relu}


class BetweenAttentions:
    """From attention's result to the next layer's queries, keys and values, or to the logits:

        stream = stream + attended o^T
        stream = stream + (act(x gate^T) * (x up^T)) down^T     with x = rmsnorm(stream) * norm
        out    = rmsnorm(stream) * next_norm next^T

    Layers of equal shapes share their plans. Call ``prepare`` before a CUDA graph is captured.

    Args:
        o: [hidden, q], bf16 or f16 like all others, contiguous, on a GPU, as nn.Linear stores it.
        norm: [hidden], of the norm before the MLP. None: it is multiplied into gate_up, whose product then computes the norm
            itself at few rows; the normalised rows are not rounded.
        gate_up: [2 inner, hidden], gate above up; or the two [inner, hidden].
        down: [hidden, inner].
        next_norm: [hidden], of the norm behind the MLP: the next layer's first, or the model's last. None: as for norm.
        next: [columns, hidden]: the next layer's merged queries, keys and values, or the matrix of logits.
        eps: of both norms.
        act: "silu", "gelu_tanh", "gelu_erf" or "relu".
        pdl: the first kernel may start while the kernel ahead on the stream ends. After a weight was changed in place,
            launch once on an idle stream.

    Raises:
        Error: INVALID_ARGUMENT naming the weight that does not fit.
    """

    def __init__(
        self,
        o: torch.Tensor,
        norm: Optional[torch.Tensor],
        gate_up: "torch.Tensor | Tuple[torch.Tensor, torch.Tensor]",
        down: torch.Tensor,
        next_norm: Optional[torch.Tensor],
        next: torch.Tensor,
        *,
        eps: float = 1e-6,
        act: str = "silu",
        pdl: bool = False,
    ) -> None:
        gate, up = gate_up.chunk(2) if isinstance(gate_up, torch.Tensor) else gate_up
        given = dict(o=o, norm=norm, gate=gate, up=up, down=down, next_norm=next_norm, next=next)
        weights = {name: weight for name, weight in given.items() if weight is not None}
        _check(weights)
        self._weights = list(weights.values())
        if act not in _ACTIVATIONS:
            raise invalid(f"act is {act!r}; there are {' '.join(_ACTIVATIONS)}")
        #: attended [M, q], stream [M, hidden], then the weights -> stream, out.
        norms = (norm is not None, next_norm is not None)
        self.chain = _chain(len(o), len(gate), len(next), o.shape[1], norms, eps, act, _DTYPES[o.dtype])
        self._key = register_chain(self.chain)
        self.pdl = pdl

    def __call__(self, attended: torch.Tensor, stream: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """attended [rows, q], stream [rows, hidden] -> (stream [rows, hidden], out [rows, columns]), new memory.

        Raises:
            Error: STREAM_CAPTURING for a number of rows that was not prepared; whatever a prepare raises.
        """
        result = torch.ops.sinter.run([attended, stream, *self._weights], self._key, self.pdl)
        return result[0], result[1]

    def prepare(self, sizes: Sequence[int]) -> Dict[int, str]:
        """Prepares for each number of rows in `sizes`, in parallel; the plans' digests, for ranks to compare.

        Raises:
            Error: INVALID_ARGUMENT for sizes or weights that are not on a GPU; whatever a prepare raises.
        """
        wanted = sorted({integer(size, f"sizes[{i}]", 1, 2**31 - 1) for i, size in enumerate(sizes)})
        device = self._weights[0].device
        if device.type != "cuda":
            raise invalid(f"the weights are on {device}, not on a GPU")
        return store.prepare_chain(device.index, self.chain, self._key, wanted)


def _chain(
    hidden: int, inner: int, columns: int, q: int, norms: Tuple[bool, bool], eps: float, act: str, dtype: str
) -> Chain:
    b = Builder()

    def norm(x: Value, weight: Optional[Value]) -> Value:
        return rmsnorm(x, eps=eps) if weight is None else rmsnorm(x, weight, eps=eps).cast(dtype)

    attended, stream = b.input(dtype, (M, q), name="attended"), b.input(dtype, (M, hidden), name="stream")
    o = b.constant(dtype, (hidden, q))
    first = b.constant(dtype, (hidden,)) if norms[0] else None
    gate, up = b.constant(dtype, (inner, hidden)), b.constant(dtype, (inner, hidden))
    down = b.constant(dtype, (hidden, inner))
    second = b.constant(dtype, (hidden,)) if norms[1] else None
    next = b.constant(dtype, (columns, hidden))
    stream = (attended @ o.T + stream).cast(dtype)
    x = norm(stream, first)
    stream = ((_ACTIVATIONS[act](x @ gate.T) * (x @ up.T)) @ down.T + stream).cast(dtype)
    return b.finish(stream, (norm(stream, second) @ next.T).cast(dtype))


def _check(weights: Dict[str, torch.Tensor]) -> None:
    for name, weight in weights.items():
        if weight.dim() != (1 if name.endswith("norm") else 2):
            raise invalid(f"{name} has shape {tuple(weight.shape)}: norms have one axis, the others two")
    o, gate = weights["o"], weights["gate"]
    hidden, inner = o.shape[0], gate.shape[0]
    shapes = {"norm": (hidden,), "gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
    shapes.update(next_norm=(hidden,), next=(weights["next"].shape[0], hidden))
    for name, weight in weights.items():
        if tuple(weight.shape) != shapes.get(name, tuple(weight.shape)):
            raise invalid(f"{name} has shape {tuple(weight.shape)}, not {shapes[name]}")
        if weight.dtype not in _DTYPES or weight.dtype != o.dtype or weight.device != o.device:
            raise invalid(f"{name} is {weight.dtype} on {weight.device}, o is {o.dtype} on {o.device}: bf16 or f16, all alike")
        if not weight.is_contiguous():
            raise invalid(f"{name} has strides {weight.stride()}: it must be contiguous")


# ---------------------------------------------------------------- As an operator


@lru_cache(maxsize=None)
def _chain_key(hidden: int, inner: int, columns: int, q: int, eps: float, dtype: torch.dtype) -> str:
    """The key of the registered chain of such a layer, with SiLU."""
    return register_chain(_chain(hidden, inner, columns, q, (True, True), eps, "silu", _DTYPES[dtype]))


_Result = Tuple[torch.Tensor, torch.Tensor]


def _between_cuda(attended: torch.Tensor, stream: torch.Tensor, weights: List[torch.Tensor], eps: float) -> _Result:
    """`weights`: o, norm, gate_up, down, next_norm, next, as of `BetweenAttentions`."""
    o, norm, gate_up, down, next_norm, next = _six(weights)
    gate, up = gate_up.chunk(2)
    _check(dict(o=o, norm=norm, gate=gate, up=up, down=down, next_norm=next_norm, next=next))
    rows = stream.shape[0]
    for name, value, columns in (("attended", attended, o.shape[1]), ("stream", stream, o.shape[0])):
        if tuple(value.shape) != (rows, columns) or value.dtype != o.dtype or value.device != o.device:
            raise invalid(f"{name} is {value.dtype} {tuple(value.shape)} on {value.device}, not {o.dtype} {(rows, columns)}")
    device = stream.device.index
    plan = store.find(device, _chain_key(len(norm), len(gate), len(next), o.shape[1], eps, o.dtype), rows)
    if plan is None:
        return _between_by_torch(attended, stream, weights, eps)
    attended, stream = attended.contiguous(), stream.contiguous()
    result = torch.empty_like(stream), stream.new_empty((rows, len(next)))
    buffers = (attended, stream, o, norm, gate, up, down, next_norm, next, *result)
    launch(plan, tuple(buffer.data_ptr() for buffer in buffers), rows, device, pdl=True)
    return result


def _between_by_torch(attended: torch.Tensor, stream: torch.Tensor, weights: List[torch.Tensor], eps: float) -> _Result:
    o, norm, gate_up, down, next_norm, next = _six(weights)
    linear, rms_norm, fused = torch.nn.functional.linear, torch.nn.functional.rms_norm, store.settings.silu_and_mul
    stream = stream + linear(attended, o)
    both = linear(rms_norm(stream, norm.shape, norm, eps), gate_up)
    if fused is not None and both.is_cuda:
        inner = fused(both)
    else:
        gate, up = both.chunk(2, dim=-1)
        inner = torch.nn.functional.silu(gate) * up
    stream = stream + linear(inner, down)
    return stream, linear(rms_norm(stream, next_norm.shape, next_norm, eps), next)


def _between_fake(attended: torch.Tensor, stream: torch.Tensor, weights: List[torch.Tensor], eps: float) -> _Result:
    return torch.empty_like(stream), stream.new_empty((stream.shape[0], _six(weights)[5].shape[0]))


def _six(weights: List[torch.Tensor]) -> List[torch.Tensor]:
    if len(weights) != 6:
        raise invalid(f"there are {len(weights)} weights, not o, norm, gate_up, down, next_norm and next")
    return weights


register(
    (
        (
            "between_attentions",
            "(Tensor attended, Tensor stream, Tensor[] weights, float eps) -> (Tensor, Tensor)",
            {"CUDA": _between_cuda, "CPU": _between_by_torch, "fake": _between_fake},
        ),
    )
)
