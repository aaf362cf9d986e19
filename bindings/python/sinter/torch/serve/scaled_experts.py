"""Mixtures of experts of e4m3 codes, as in checkpoints of DeepSeek-V3 and Qwen3: a scale for 128 x 128 of a matrix and for 128 of a row.

Servers use them. A server quantises the rows, or leaves that to the plan. The plan quantises the results of the first products.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Optional, Sequence

import torch

from ..._builder import Builder
from ..._scaled import Quantizer, Scaled, quantize, scaled_grouped_gated_ffn
from ..._shape import M
from ..runtime.experts import MOST_EXPERTS, extents_of, launch_line
from ..runtime.register import HALVES
from ..runtime.registered_chain import register_chain

BLOCK = 128


class Scales(NamedTuple):
    """The scales of the codes, f32.

    Attributes:
        w13: [experts, 2 n / 128, k / 128], gate's scales above up's.
        w2: [experts, l / 128, n / 128], rounded up.
        x: [rows, k / 128]; None: rows are of 16 bits, and the plan quantises them.
    """

    w13: torch.Tensor
    w2: torch.Tensor
    x: Optional[torch.Tensor] = None


@lru_cache(maxsize=None)
def scaled_experts_key(experts: int, top: int, n: int, k: int, l: int, dtype: torch.dtype, coded: bool) -> str:
    """The key of the registered chain, with SiLU. `coded`: rows are codes with scales; else they have `dtype`, like the result."""
    b, name = Builder(), HALVES[dtype]
    if coded:
        x = Scaled(b.input("e4m3", (M, k), name="x"), b.input("f32", (M, k // BLOCK), name="scale_x"))
    else:
        x = quantize(b.input(name, (M, k), name="x"), Quantizer("group"))
    ids, weights = b.input("s32", (M, top), name="ids"), b.input("f32", (M, top), name="weights")

    def matrix(rows: int, columns: int) -> Scaled:
        blocks = (experts, -(-rows // BLOCK), columns // BLOCK)
        return Scaled(b.constant("e4m3", (experts, rows, columns)), b.constant("f32", blocks))

    y = scaled_grouped_gated_ffn(x, ids, weights, matrix(2 * n, k), matrix(l, n), quantizer=Quantizer("group"))
    return register_chain(b.finish(y.cast(name)))


def reason_against_scaled_experts(w13: torch.Tensor, w2: torch.Tensor, scales: Scales) -> str:
    """Why no plan computes experts of these codes; "" if a plan may."""
    shapes = f"{tuple(w13.shape)} and {tuple(w2.shape)}"
    if w13.dim() != 3 or w2.dim() != 3 or w13.shape[0] != w2.shape[0] or w13.shape[1] != 2 * w2.shape[2]:
        return f"the experts' matrices have shapes {shapes}: gate and up are not twice what down takes"
    if w13.dtype != torch.float8_e4m3fn or w2.dtype != w13.dtype:
        return f"the experts' matrices are {w13.dtype} and {w2.dtype}, not both float8_e4m3fn"
    experts, n, k, l = extents_of(w13, w2)
    if n % BLOCK or k % BLOCK:
        return f"n is {n} and k {k}: blocks of {BLOCK} x {BLOCK} need multiples of {BLOCK}"
    if l % 8:
        return f"l is {l}, no multiple of 8"
    if experts > MOST_EXPERTS:
        return f"there are {experts} experts, more than {MOST_EXPERTS}"
    wanted = ((experts, 2 * n // BLOCK, k // BLOCK), (experts, -(-l // BLOCK), n // BLOCK))
    for name, scale, shape in (("w13", scales.w13, wanted[0]), ("w2", scales.w2, wanted[1])):
        if scale.dtype != torch.float32 or tuple(scale.shape) != shape:
            return f"scales of {name} are {scale.dtype} {tuple(scale.shape)}, not torch.float32 {shape}"
    if not all(each.is_contiguous() for each in (w13, w2, scales.w13, scales.w2)):
        return "the experts' matrices or their scales are not contiguous"
    return ""


def takes_rows(x: torch.Tensor, scale: Optional[torch.Tensor], k: int) -> bool:
    """Whether rows are of 16 bits, or codes with a scale for 128 of each."""
    if x.dim() != 2 or x.shape[1] != k:
        return False
    if scale is None:
        return x.dtype in HALVES
    return x.dtype == torch.float8_e4m3fn and scale.dtype == torch.float32 and tuple(scale.shape) == (x.shape[0], k // BLOCK)


def launch_scaled_experts(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    scales: Scales,
    out: torch.Tensor,
    within: Optional[Sequence[int]],
) -> Optional[torch.Tensor]:
    """`out` [rows, l], of 16 bits, computed by a plan; None if the server computes. Arguments are checked before; `within`: see
    ``launch_experts``."""
    experts, n, k, l = extents_of(w13, w2)
    key = scaled_experts_key(experts, ids.shape[1], n, k, l, out.dtype, scales.x is not None)
    rows = (x,) if scales.x is None else (x, scales.x)
    return launch_line(key, rows, ids, weights, (w13, scales.w13, w2, scales.w2), out, within)
