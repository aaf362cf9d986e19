"""The chain of the layers between two attentions, and the requirements on its weights."""

from __future__ import annotations

from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from ..._builder import Builder, Value
from ..._chain import Chain
from ..._error import invalid
from ..._functions import all_reduce, relu, silu
from ..._operators import gelu, rmsnorm
from ..._scaled import Quantizer, Scaled, quantize, scaled_matmul
from ..._shape import M
from ..runtime.register import HALVES, need_tensor
from . import packed_matrix
from .packed_matrix import PACKED

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
        quantizer: one of ``QUANTIZERS``; each matrix is then e4m3, and its scales are the next input. Scales of rows are inputs if it is
            "static". Or one of ``PACKED``: each matrix is then codes, scales and perhaps zeros, with gate and up merged. "": matrices have `dtype`.

    Raises:
        Error: INVALID_ARGUMENT for an activation or a quantizer that there is none for, or extents that do not fit.
    """
    if act not in _ACTIVATIONS:
        raise invalid(f"act is {act!r}; there are {' '.join(_ACTIVATIONS)}")
    check_quantizer(quantizer)
    b, packed = Builder(), PACKED.get(quantizer)
    scaled = bool(quantizer) and packed is None

    def matrix(rows: int, columns: int, merged: int = 1) -> _Matrix:
        if packed is not None:
            return packed_matrix.constant(b, rows, columns, packed, dtype, merged)
        if not scaled:
            return b.constant(dtype, (rows, columns))
        return Scaled(b.constant("e4m3", (rows, columns)), b.constant("f32", scale_shape(rows, columns, quantizer)))

    def operand(x: Value, rows: str) -> _Matrix:
        return quantize(x, QUANTIZERS[quantizer]._replace(scale=given.get(rows))) if scaled else x

    def product(x: _Matrix, w: _Matrix) -> Value:
        if isinstance(x, Scaled) and isinstance(w, Scaled):
            return scaled_matmul(x, w)
        assert isinstance(x, Value) and isinstance(w, Value)
        return x @ w.T

    def norm(x: Value, weight: Optional[Value], rows: str) -> _Matrix:
        if weight is None:
            return operand(rmsnorm(x, eps=eps), rows)
        normed = rmsnorm(x, weight, eps=eps)
        return operand(normed if scaled else normed.cast(dtype), rows)

    def behind(product: Value, stream: Value) -> Value:
        whole = product if ranks == 1 else all_reduce(product.cast(dtype), ranks)
        return (whole + stream).cast(dtype)

    attended, stream = b.input(dtype, (M, q), name="attended"), b.input(dtype, (M, hidden), name="stream")
    o = matrix(hidden, q)
    first = b.constant(dtype, (hidden,)) if norms[0] else None
    gate, up = matrix(inner, hidden, 2), matrix(inner, hidden, 2)
    down = matrix(hidden, inner)
    second = b.constant(dtype, (hidden,)) if norms[1] else None
    next = matrix(columns, hidden)
    given: Dict[str, Value] = {rows: b.constant("f32", ()) for rows in ROWS if quantizer == "static"}
    of_o, of_gate_up, of_down, of_next = ROWS
    stream = behind(product(operand(attended, of_o), o), stream)
    x = norm(stream, first, of_gate_up)
    stream = behind(product(operand(_ACTIVATIONS[act](product(x, gate)) * product(x, up), of_down), down), stream)
    return b.finish(stream, product(norm(stream, second, of_next), next).cast(dtype))


def check_quantizer(quantizer: str, known: Collection[str] = (*QUANTIZERS, *PACKED)) -> None:
    """
    Raises:
        Error: INVALID_ARGUMENT for a name that is not in `known`; "" stands for no quantizer.
    """
    if quantizer and quantizer not in known:
        raise invalid(f"quantizer is {quantizer!r}; there are {' '.join(known)}")


class Extents(NamedTuple):
    """The extents of a layer: columns of the stream, of the MLP's inner rows, of the last result and of attention's result."""

    hidden: int
    inner: int
    columns: int
    q: int


def extents_of(o: torch.Tensor, gate_up: torch.Tensor, next: torch.Tensor, quantizer: str) -> Extents:
    """The extents of the layer that has these matrices, with gate and up merged."""
    shape = packed_matrix.extents if quantizer in PACKED else lambda matrix: (matrix.shape[0], matrix.shape[1])
    hidden, q = shape(o)
    return Extents(hidden, shape(gate_up)[0] // 2, shape(next)[0], q)


def halves(gate_up: torch.Tensor, quantizer: str) -> Tuple[torch.Tensor, ...]:
    """Gate and up of merged matrices, or of their scales or zeros."""
    if not gate_up.dim():
        return gate_up, gate_up
    return gate_up.tensor_split(2, 1 if quantizer in PACKED else 0)


def zeros_of(matrix: str) -> str:
    """The name of a packed matrix's zeros among its scales."""
    return f"zeros of {matrix}"


def in_order(weights: Mapping[str, torch.Tensor], scales: Mapping[str, torch.Tensor]) -> List[torch.Tensor]:
    """The chain's constants: after each matrix its scales and zeros, last the given scales of ``ROWS``."""
    found: List[torch.Tensor] = []
    for name, weight in weights.items():
        found += [weight, *(scales[one] for one in (name, zeros_of(name)) if one in scales)]
    return found + [scales[rows] for rows in ROWS if rows in scales]


def scale_shape(rows: int, columns: int, quantizer: str) -> Tuple[int, ...]:
    """The shape that the scales of an e4m3 matrix [rows, columns] have."""
    if quantizer == "static":
        return ()
    return (rows, 1) if quantizer == "row" else (-(-rows // BLOCK), columns // BLOCK)


def scales_by_name(scales: Sequence[Any], quantizer: str) -> Dict[str, torch.Tensor]:
    """The scales of a chain's matrices, gate apart from up, zeros by ``zeros_of``, and the given scales of ``ROWS``.

    Args:
        scales: of o, gate_up, down and next; of gate_up a tensor for both halves, or the two. Then, if there are, zeros of the same, or given
            scales of rows.

    Raises:
        Error: INVALID_ARGUMENT for another number of scales.
    """
    packed = PACKED.get(quantizer)
    zeros, given = packed is not None and packed.zeros, quantizer == "static"
    if len(scales) != 4 + 4 * (zeros or given):
        more = ", then the given scales of the rows that they multiply" if given else ", then their zeros" if zeros else ""
        raise invalid(f"there are {len(scales)} scales with quantizer {quantizer!r}: give those of o, gate_up, down and next{more}")
    found = _by_matrix(scales[:4], quantizer)
    if zeros:
        found.update((zeros_of(name), one) for name, one in _by_matrix(scales[4:], quantizer).items())
    return {**found, **dict(zip(ROWS, scales[4:] if given else ()))}


def _by_matrix(scales: Sequence[Any], quantizer: str) -> Dict[str, torch.Tensor]:
    o, gate_up, down, next = scales
    if isinstance(gate_up, torch.Tensor):
        gate_up = halves(gate_up, quantizer)
    if not isinstance(gate_up, (tuple, list)) or len(gate_up) != 2:
        raise TypeError(f"the scales of gate_up are a {type(gate_up).__name__}, neither a tensor nor two")
    return dict(o=o, gate=gate_up[0], up=gate_up[1], down=down, next=next)


def check_weights(weights: Dict[str, torch.Tensor], scales: Mapping[str, torch.Tensor] = {}, quantizer: str = "") -> None:
    """Checks shapes, types, devices and strides of the weights by name; a norm may be missing. `scales`: see ``scales_by_name``.

    Raises:
        Error: INVALID_ARGUMENT naming the weight or the scales that do not fit.
    """
    for name, weight in weights.items():
        need_tensor(weight, name)
        if weight.dim() != (1 if name.endswith("norm") else 2):
            raise invalid(f"{name} has shape {tuple(weight.shape)}: norms have one axis, the others two")
    if quantizer and not {"norm", "next_norm"} <= weights.keys():
        raise invalid("a norm has no weight, and norms are not folded into matrices of codes: give both")
    if quantizer in PACKED:
        _check_packed(weights, scales, PACKED[quantizer])
        return
    o, gate = weights["o"], weights["gate"]
    hidden, inner = o.shape[0], gate.shape[0]
    shapes = {"norm": (hidden,), "gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
    shapes.update(next_norm=(hidden,), next=(weights["next"].shape[0], hidden))
    like = weights["norm"] if quantizer else o
    for name, weight in weights.items():
        if tuple(weight.shape) != shapes.get(name, tuple(weight.shape)):
            raise invalid(f"{name} has shape {tuple(weight.shape)}, not {shapes[name]}")
        if quantizer and not name.endswith("norm"):
            if weight.dtype != torch.float8_e4m3fn or weight.device != o.device:
                raise invalid(f"{name} is {weight.dtype} on {weight.device}, o is on {o.device}: matrices are float8_e4m3fn, all on one device")
        elif weight.dtype not in HALVES or weight.dtype != like.dtype or weight.device != o.device:
            named = "norm" if quantizer else "o"
            raise invalid(f"{name} is {weight.dtype} on {weight.device}, {named} is {like.dtype} on {o.device}: bf16 or f16, all alike")
        if not weight.is_contiguous():
            raise invalid(f"{name} has strides {weight.stride()}: it must be contiguous")
    if quantizer:
        _check_scales(weights, scales, quantizer)


def _check_packed(weights: Mapping[str, torch.Tensor], scales: Mapping[str, torch.Tensor], how: packed_matrix.Packed) -> None:
    """Checks matrices of four bits, of which gate and up are parts of merged ones."""
    norm, (hidden, q) = weights["norm"], packed_matrix.extents(weights["o"])
    inner, columns = (packed_matrix.extents(weights[name])[0] for name in ("gate", "next"))
    for name in ("norm", "next_norm"):
        weight = weights[name]
        if weight.dtype not in HALVES or weight.dtype != norm.dtype or weight.device != norm.device or tuple(weight.shape) != (hidden,):
            raise invalid(f"{name} is {weight.dtype} {tuple(weight.shape)} on {weight.device}: bf16 or f16 {(hidden,)}, both alike")
        if not weight.is_contiguous():
            raise invalid(f"{name} has strides {weight.stride()}: it must be contiguous")
    shapes = dict(o=(hidden, q), gate=(inner, hidden), up=(inner, hidden), down=(hidden, inner), next=(columns, hidden))
    for name, (n, k) in shapes.items():
        found = {"codes": weights[name], "scales": scales[name], **({"zeros": scales[zeros_of(name)]} if how.zeros else {})}
        packed_matrix.check(name, found, n, k, how, norm, 2 if name in ("gate", "up") else 1)


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
