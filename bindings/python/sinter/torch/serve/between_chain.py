"""The chain of the layers between two attentions, and the requirements on its weights."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Tuple, Union

import torch

from ..._builder import Builder, Value
from ..._chain import Chain
from ..._error import invalid
from ..._functions import all_reduce, relu, silu
from ..._operators import gelu, rmsnorm
from ..._scaled import Quantizer, Scaled, quantize, scaled_matmul
from ..._shape import M
from ..runtime.ops import _DTYPES, need_tensor

_Matrix = Union[Value, Scaled]
_ACTIVATIONS = {"silu": silu, "gelu_tanh": gelu, "gelu_erf": lambda x: gelu(x, "erf"), "relu": relu}

BLOCK = 128

#: How matrices of e4m3 are scaled, and how the rows that they multiply are quantised. "row": each channel and each row has a scale;
#: "group": each 128 x 128 of a matrix and each 128 of a row have one; "group_ue8m0": like "group", but scales of rows are powers of two.
QUANTIZERS = {"row": Quantizer("row", eps=1 / 512), "group": Quantizer("group"), "group_ue8m0": Quantizer("group", ue8m0=True)}


def between_chain(
    hidden: int,
    inner: int,
    columns: int,
    q: int,
    norms: Tuple[bool, bool],
    eps: float,
    act: str,
    dtype: str,
    ranks: int = 1,
    quantizer: str = "",
) -> Chain:
    """attended [M, q], stream [M, hidden], o, norm, gate, up, down, next_norm, next -> stream, out.

    Args:
        norms: which of the two norms have a weight; a missing weight is part of the following matrix.
        ranks: GPUs over which `q`, `inner` and `columns` are split. Each has a partial sum of o's and down's products, rounded to `dtype`;
            the all-reduced sum is added to the stream.
        quantizer: one of ``QUANTIZERS``; each matrix is then e4m3, and its scales are the next input. "": matrices have `dtype`.

    Raises:
        Error: INVALID_ARGUMENT for an activation or a quantizer that there is none for, or extents that do not fit.
    """
    if act not in _ACTIVATIONS:
        raise invalid(f"act is {act!r}; there are {' '.join(_ACTIVATIONS)}")
    check_quantizer(quantizer)
    b = Builder()

    def matrix(rows: int, columns: int) -> _Matrix:
        if not quantizer:
            return b.constant(dtype, (rows, columns))
        return Scaled(b.constant("e4m3", (rows, columns)), b.constant("f32", scale_shape(rows, columns, quantizer)))

    def operand(x: Value) -> _Matrix:
        return quantize(x, QUANTIZERS[quantizer]) if quantizer else x

    def product(x: _Matrix, w: _Matrix) -> Value:
        if isinstance(x, Scaled) and isinstance(w, Scaled):
            return scaled_matmul(x, w)
        assert isinstance(x, Value) and isinstance(w, Value)
        return x @ w.T

    def norm(x: Value, weight: Optional[Value]) -> _Matrix:
        if weight is None:
            return operand(rmsnorm(x, eps=eps))
        normed = rmsnorm(x, weight, eps=eps)
        return operand(normed if quantizer else normed.cast(dtype))

    def behind(product: Value, stream: Value) -> Value:
        whole = product if ranks == 1 else all_reduce(product.cast(dtype), ranks)
        return (whole + stream).cast(dtype)

    attended, stream = b.input(dtype, (M, q), name="attended"), b.input(dtype, (M, hidden), name="stream")
    o = matrix(hidden, q)
    first = b.constant(dtype, (hidden,)) if norms[0] else None
    gate, up = matrix(inner, hidden), matrix(inner, hidden)
    down = matrix(hidden, inner)
    second = b.constant(dtype, (hidden,)) if norms[1] else None
    next = matrix(columns, hidden)
    stream = behind(product(operand(attended), o), stream)
    x = norm(stream, first)
    stream = behind(product(operand(_ACTIVATIONS[act](product(x, gate)) * product(x, up)), down), stream)
    return b.finish(stream, product(norm(stream, second), next).cast(dtype))


def check_quantizer(quantizer: str) -> None:
    """
    Raises:
        Error: INVALID_ARGUMENT for a name that is not in ``QUANTIZERS``; "" stands for no quantizer.
    """
    if quantizer and quantizer not in QUANTIZERS:
        raise invalid(f"quantizer is {quantizer!r}; there are {' '.join(QUANTIZERS)}")


def scale_shape(rows: int, columns: int, quantizer: str) -> Tuple[int, int]:
    """The shape that the scales of an e4m3 matrix [rows, columns] have."""
    return (rows, 1) if quantizer == "row" else (-(-rows // BLOCK), columns // BLOCK)


def check_weights(weights: Dict[str, torch.Tensor], scales: Mapping[str, torch.Tensor] = {}, quantizer: str = "") -> None:
    """Checks shapes, types, devices and strides of the weights by name; a norm may be missing. `scales`: of each matrix, by the same names.

    Raises:
        Error: INVALID_ARGUMENT naming the weight or the scales that do not fit.
    """
    for name, weight in weights.items():
        need_tensor(weight, name)
        if weight.dim() != (1 if name.endswith("norm") else 2):
            raise invalid(f"{name} has shape {tuple(weight.shape)}: norms have one axis, the others two")
    o, gate = weights["o"], weights["gate"]
    hidden, inner = o.shape[0], gate.shape[0]
    shapes = {"norm": (hidden,), "gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
    shapes.update(next_norm=(hidden,), next=(weights["next"].shape[0], hidden))
    if quantizer and not {"norm", "next_norm"} <= weights.keys():
        raise invalid("a norm has no weight, and norms are not folded into matrices of e4m3: give both")
    like = weights["norm"] if quantizer else o
    for name, weight in weights.items():
        if tuple(weight.shape) != shapes.get(name, tuple(weight.shape)):
            raise invalid(f"{name} has shape {tuple(weight.shape)}, not {shapes[name]}")
        if quantizer and not name.endswith("norm"):
            if weight.dtype != torch.float8_e4m3fn or weight.device != o.device:
                raise invalid(f"{name} is {weight.dtype} on {weight.device}, o is on {o.device}: matrices are float8_e4m3fn, all on one device")
        elif weight.dtype not in _DTYPES or weight.dtype != like.dtype or weight.device != o.device:
            named = "norm" if quantizer else "o"
            raise invalid(f"{name} is {weight.dtype} on {weight.device}, {named} is {like.dtype} on {o.device}: bf16 or f16, all alike")
        if not weight.is_contiguous():
            raise invalid(f"{name} has strides {weight.stride()}: it must be contiguous")
    if quantizer:
        _check_scales(weights, scales, quantizer)


def _check_scales(weights: Mapping[str, torch.Tensor], scales: Mapping[str, torch.Tensor], quantizer: str) -> None:
    for name, weight in weights.items():
        if name.endswith("norm"):
            continue
        need_tensor(scales.get(name), f"scales of {name}")
        rows, columns = weight.shape
        if quantizer != "row" and (columns % BLOCK or name in ("gate", "up") and rows % BLOCK):
            raise invalid(f"{name} has shape {(rows, columns)}: blocks of {BLOCK} x {BLOCK} need multiples of {BLOCK}")
        scale, shape = scales[name], scale_shape(rows, columns, quantizer)
        if scale.dtype != torch.float32 or tuple(scale.shape) != shape or scale.device != weight.device or not scale.is_contiguous():
            raise invalid(
                f"scales of {name} are {scale.dtype} {tuple(scale.shape)} with strides {scale.stride()} on {scale.device}, "
                f"not contiguous torch.float32 {shape} on {weight.device}"
            )
