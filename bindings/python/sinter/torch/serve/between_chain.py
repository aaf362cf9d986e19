"""The chain of the layers between two attentions, and the requirements on its weights."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

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
#: "group": each 128 x 128 of a matrix and each 128 of a row have one; "group_ue8m0": like "group", but scales of rows are powers of two;
#: "static": each matrix has one, and its rows have a given one.
QUANTIZERS = {
    "row": Quantizer("row", eps=1 / 512),
    "group": Quantizer("group"),
    "group_ue8m0": Quantizer("group", ue8m0=True),
    "static": Quantizer("static"),
}

#: The rows that matrices multiply, by the names that messages give to their scales, in the order of the chain's inputs.
ROWS = ("rows of o", "rows of gate_up", "rows of down", "rows of next")


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
    """attended [M, q], stream [M, hidden], o, norm, gate, up, down, next_norm, next, given scales of ``ROWS`` -> stream, out.

    Args:
        norms: which of the two norms have a weight; a missing weight is part of the following matrix.
        ranks: GPUs over which `q`, `inner` and `columns` are split. Each has a partial sum of o's and down's products, rounded to `dtype`;
            the all-reduced sum is added to the stream.
        quantizer: one of ``QUANTIZERS``; each matrix is then e4m3, and its scales are the next input. "": matrices have `dtype`. Scales of rows
            are inputs if it is "static".

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

    def operand(x: Value, rows: str) -> _Matrix:
        return quantize(x, QUANTIZERS[quantizer]._replace(scale=given.get(rows))) if quantizer else x

    def product(x: _Matrix, w: _Matrix) -> Value:
        if isinstance(x, Scaled) and isinstance(w, Scaled):
            return scaled_matmul(x, w)
        assert isinstance(x, Value) and isinstance(w, Value)
        return x @ w.T

    def norm(x: Value, weight: Optional[Value], rows: str) -> _Matrix:
        if weight is None:
            return operand(rmsnorm(x, eps=eps), rows)
        normed = rmsnorm(x, weight, eps=eps)
        return operand(normed if quantizer else normed.cast(dtype), rows)

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
    given: Dict[str, Value] = {rows: b.constant("f32", ()) for rows in ROWS if quantizer == "static"}
    of_o, of_gate_up, of_down, of_next = ROWS
    stream = behind(product(operand(attended, of_o), o), stream)
    x = norm(stream, first, of_gate_up)
    stream = behind(product(operand(_ACTIVATIONS[act](product(x, gate)) * product(x, up), of_down), down), stream)
    return b.finish(stream, product(norm(stream, second, of_next), next).cast(dtype))


def check_quantizer(quantizer: str) -> None:
    """
    Raises:
        Error: INVALID_ARGUMENT for a name that is not in ``QUANTIZERS``; "" stands for no quantizer.
    """
    if quantizer and quantizer not in QUANTIZERS:
        raise invalid(f"quantizer is {quantizer!r}; there are {' '.join(QUANTIZERS)}")


def scale_shape(rows: int, columns: int, quantizer: str) -> Tuple[int, ...]:
    """The shape that the scales of an e4m3 matrix [rows, columns] have."""
    if quantizer == "static":
        return ()
    return (rows, 1) if quantizer == "row" else (-(-rows // BLOCK), columns // BLOCK)


def scales_by_name(scales: Sequence[Any], quantizer: str) -> Dict[str, torch.Tensor]:
    """The scales of a chain's matrices, gate apart from up, and the given scales of ``ROWS``.

    Args:
        scales: of o, gate_up, down and next; of gate_up a tensor for both halves, or the two.

    Raises:
        Error: INVALID_ARGUMENT for another number of scales.
    """
    wanted = 4 + len(ROWS) * (quantizer == "static")
    if len(scales) != wanted:
        more = ", then the given scales of the rows that they multiply" if quantizer == "static" else ""
        raise invalid(f"there are {len(scales)} scales with quantizer {quantizer!r}: give those of o, gate_up, down and next{more}")
    o, gate_up, down, next, *given = scales
    if isinstance(gate_up, torch.Tensor):
        gate_up = gate_up.tensor_split(2) if gate_up.dim() else (gate_up, gate_up)
    if not isinstance(gate_up, (tuple, list)) or len(gate_up) != 2:
        raise TypeError(f"the scales of gate_up are a {type(gate_up).__name__}, neither a tensor nor two")
    return dict(o=o, gate=gate_up[0], up=gate_up[1], down=down, next=next, **dict(zip(ROWS, given)))


def check_weights(weights: Dict[str, torch.Tensor], scales: Mapping[str, torch.Tensor] = {}, quantizer: str = "") -> None:
    """Checks shapes, types, devices and strides of the weights by name; a norm may be missing. `scales`: see ``scales_by_name``.

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
    device = weights["o"].device
    for name in ("o", "gate", "up", "down", "next"):
        rows, columns = weights[name].shape
        if quantizer.startswith("group") and (columns % BLOCK or name in ("gate", "up") and rows % BLOCK):
            raise invalid(f"{name} has shape {(rows, columns)}: blocks of {BLOCK} x {BLOCK} need multiples of {BLOCK}")
        _check_scale(scales, name, scale_shape(rows, columns, quantizer), device)
    for name in ROWS if quantizer == "static" else ():
        _check_scale(scales, name, (), device)


def _check_scale(scales: Mapping[str, torch.Tensor], name: str, shape: Tuple[int, ...], device: torch.device) -> None:
    need_tensor(scales.get(name), f"scales of {name}")
    scale = scales[name]
    if scale.dtype != torch.float32 or tuple(scale.shape) != shape or scale.device != device or not scale.is_contiguous():
        raise invalid(
            f"scales of {name} are {scale.dtype} {tuple(scale.shape)} with strides {scale.stride()} on {scale.device}, "
            f"not contiguous torch.float32 {shape} on {device}"
        )
