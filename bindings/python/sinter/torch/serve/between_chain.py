"""The chain of all that lies between two attentions, and what its weights must be."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

import torch

from ..._builder import Builder, Value
from ..._chain import Chain
from ..._error import invalid
from ..._functions import all_reduce, relu, silu
from ..._operators import gelu, rmsnorm
from ..._shape import M
from ..runtime.ops import _DTYPES, need_tensor

_ACTIVATIONS = {"silu": silu, "gelu_tanh": gelu, "gelu_erf": lambda x: gelu(x, "erf"), "relu": relu}


def between_chain(
    hidden: int, inner: int, columns: int, q: int, norms: Tuple[bool, bool], eps: float, act: str, dtype: str, ranks: int = 1
) -> Chain:
    """attended [M, q], stream [M, hidden], o, norm, gate, up, down, next_norm, next -> stream, out.

    `norms`: which of the two norms have a weight; else it is part of the matrix behind. `ranks`: GPUs over which `q`, `inner` and
    `columns` are split; each has a part of o's and down's products, rounded to `dtype`, of which the sum is added to the stream.

    Raises:
        Error: INVALID_ARGUMENT for an activation that there is none for, or extents that do not fit.
    """
    if act not in _ACTIVATIONS:
        raise invalid(f"act is {act!r}; there are {' '.join(_ACTIVATIONS)}")
    b = Builder()

    def norm(x: Value, weight: Optional[Value]) -> Value:
        return rmsnorm(x, eps=eps) if weight is None else rmsnorm(x, weight, eps=eps).cast(dtype)

    def behind(product: Value, stream: Value) -> Value:
        whole = product if ranks == 1 else all_reduce(product.cast(dtype), ranks)
        return (whole + stream).cast(dtype)

    attended, stream = b.input(dtype, (M, q), name="attended"), b.input(dtype, (M, hidden), name="stream")
    o = b.constant(dtype, (hidden, q))
    first = b.constant(dtype, (hidden,)) if norms[0] else None
    gate, up = b.constant(dtype, (inner, hidden)), b.constant(dtype, (inner, hidden))
    down = b.constant(dtype, (hidden, inner))
    second = b.constant(dtype, (hidden,)) if norms[1] else None
    next = b.constant(dtype, (columns, hidden))
    stream = behind(attended @ o.T, stream)
    x = norm(stream, first)
    stream = behind((_ACTIVATIONS[act](x @ gate.T) * (x @ up.T)) @ down.T, stream)
    return b.finish(stream, (norm(stream, second) @ next.T).cast(dtype))


def check_weights(weights: Dict[str, torch.Tensor]) -> None:
    """Shapes, types, devices and strides of the weights by name; a norm may be missing.

    Raises:
        Error: INVALID_ARGUMENT naming the weight that does not fit.
    """
    for name, weight in weights.items():
        need_tensor(weight, name)
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
