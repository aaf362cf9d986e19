"""Matrices of four bits in the order of vLLM's Marlin kernels: their shapes, their inputs of a chain, and their values by PyTorch.

A matrix [n, k] is int8 [k / 16, 8 n] with scales [k / group, n], as ``sinter.dequantize_u4_packed`` takes them. Matrices that read the same
rows, such as gate and up, may be merged along n: each is then a part of every row of the merged tensors.
"""

from __future__ import annotations

from typing import Dict, Mapping, NamedTuple, Optional, Tuple

import torch

from ..._builder import Builder, Value
from ..._error import invalid
from ..._functions import dequantize_u4_packed
from ..runtime.register import need_tensor

#: n of a matrix that lies together: the order is of sets of this many columns.
SET = 64

#: The most rows for which servers get plans: kernels read the codes again for each 64 rows.
MOST_ROWS = 64

_TILE = 16  # of k in a row of bytes
_SYMMETRIC = 8.0


class Packed(NamedTuple):
    """How a matrix of u4 is quantised: (code - zero) * scale."""

    group: int  # neighbours of k that share a scale
    zeros: bool  # whether each group has a zero; else it is 8


#: By the names that an operator's `quantizer` may have.
PACKED: Dict[str, Packed] = {
    f"u4_g{group}{'_zeros' if zeros else ''}": Packed(group, zeros) for zeros in (False, True) for group in (32, 64, 128)
}


def name_of(group: int, zeros: bool) -> str:
    """The quantizer of such matrices; "" if there is none."""
    return next((name for name, how in PACKED.items() if how == (group, zeros)), "")


def extents(codes: torch.Tensor) -> Tuple[int, int]:
    """n and k of a matrix."""
    return codes.shape[1] // 8, codes.shape[0] * _TILE


def reason_against_extents(n: int, k: int, how: Packed) -> str:
    """Why no matrix [n, k] is packed so; "" if one may be."""
    for axis, extent, unit in (("n", n, SET), ("k", k, max(SET, how.group))):
        if extent < unit or extent % unit:
            return f"{axis} is {extent}, must be a multiple of {unit}"
    return ""


def scale_shape(n: int, k: int, how: Packed) -> Tuple[int, int]:
    """The shape of the scales, and of zeros, of a matrix [n, k]."""
    return k // how.group, n


def constant(b: Builder, n: int, k: int, how: Packed, dtype: str, merged: int = 1) -> Value:
    """A matrix [n, k] of `dtype`. Adds the inputs codes, scales and, if groups have them, zeros.

    Args:
        dtype: of scales and zeros too.
        merged: matrices of this shape that share each row of memory.
    """

    def rows(of: str, dims: Tuple[int, int]) -> Value:
        return b.constant(of, dims, strides=(merged * dims[1], 1))

    codes, scale = rows("s8", (k // _TILE, 8 * n)), rows(dtype, scale_shape(n, k, how))
    zero = rows(dtype, scale_shape(n, k, how)) if how.zeros else b.scalar(_SYMMETRIC)
    return dequantize_u4_packed(codes, scale, zero).cast(dtype)


def check(name: str, tensors: Mapping[str, torch.Tensor], n: int, k: int, how: Packed, like: torch.Tensor, merged: int = 1) -> None:
    """Checks the tensors of a matrix [n, k].

    Args:
        tensors: "codes", "scales" and perhaps "zeros".
        like: a tensor with the type of scales and zeros, on the device of all.

    Raises:
        Error: INVALID_ARGUMENT naming the tensor that does not fit.
    """
    reason = reason_against_extents(n, k, how)
    if reason:
        raise invalid(f"{name} with groups of {how.group}: {reason}")
    of_groups = like.dtype, scale_shape(n, k, how)
    wanted = {"codes": (torch.int8, (k // _TILE, 8 * n)), "scales": of_groups, **({"zeros": of_groups} if how.zeros else {})}
    for what, (dtype, shape) in wanted.items():
        found = tensors.get(what)
        need_tensor(found, f"{what} of {name}")
        assert found is not None
        strides = merged * shape[1], 1
        if (found.dtype, tuple(found.shape), found.stride(), found.device) != (dtype, shape, strides, like.device):
            raise invalid(
                f"{what} of {name} are {found.dtype} {tuple(found.shape)} with strides {found.stride()} on {found.device}, "
                f"not {dtype} {shape} with strides {strides} on {like.device}"
            )


def zeros_of(packed: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Zeros [groups, n] of `dtype`, in the order of scales, from Marlin's int32 [groups, n / 8]."""
    places = _nibbles(packed).reshape(*packed.shape, 8)
    back = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7], device=packed.device)  # Marlin interleaves eight neighbours: 0 2 4 6 1 3 5 7
    return places[..., back].flatten(1).to(dtype).contiguous()


def dequantized(codes: torch.Tensor, scale: torch.Tensor, how: Packed, zero: Optional[torch.Tensor] = None) -> torch.Tensor:
    """The matrix [n, k] in the type of its scales, each element rounded once."""
    n, k = extents(codes)
    bytes = codes.reshape(k // _TILE, n // SET, 8, 4, 4, 2, 2)  # tile, set, column, pair of k, word, element of the pair, block of 8 columns
    halves = torch.stack([bytes & 15, (bytes >> 4) & 15])  # of k, 8 apart
    found = halves.permute(2, 5, 7, 3, 1, 0, 4, 6).reshape(n, k).float()
    offset = _SYMMETRIC if zero is None else _spread(zero, how)
    return ((found - offset) * _spread(scale, how)).to(scale.dtype)


def _spread(values: torch.Tensor, how: Packed) -> torch.Tensor:
    """[groups, n] in the order of scales as f32 [n, k]."""
    groups, n = values.shape
    columns = values.float().reshape(groups, n // SET, 8, 8).transpose(2, 3).reshape(groups, n)
    return columns.t().repeat_interleave(how.group, 1)


def _nibbles(words: torch.Tensor) -> torch.Tensor:
    """The eight codes of each int32, low bits first."""
    shifts = torch.arange(0, 32, 4, device=words.device, dtype=torch.int32)
    return (words.unsqueeze(-1) >> shifts) & 15
