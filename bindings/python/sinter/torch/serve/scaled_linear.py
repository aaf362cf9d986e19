"""Products of e4m3 codes and scales by PyTorch, for rows without a plan if no server has kernels for them."""

from __future__ import annotations

from typing import Optional

import torch

from .between_chain import BLOCK, QUANTIZERS

#: The largest number of e4m3.
LARGEST = 448.0


def scaled_linear(
    x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, quantizer: str, given: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """x [.., k], quantised, times weight [n, k] of codes with their scales, summed in float32.

    Args:
        quantizer: one of ``QUANTIZERS``.
        given: the scale of x, for "static".
    """
    return torch.nn.functional.linear(quantized(x, quantizer, given), dequantized(weight, scale, quantizer)).to(x.dtype)


def quantized(x: torch.Tensor, quantizer: str, given: Optional[torch.Tensor] = None) -> torch.Tensor:
    """The values that the codes of x represent, in float32."""
    how = QUANTIZERS[quantizer]
    if given is not None:
        return (x.float() / given).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn).float() * given
    groups = x.float().reshape(*x.shape[:-1], -1, BLOCK if how.granularity == "group" else x.shape[-1])
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=how.eps or 1e-10) / LARGEST
    if how.ue8m0:
        scale = torch.exp2(torch.ceil(torch.log2(scale)))
    codes = (groups / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
    return (codes.float() * scale).flatten(-2)


def dequantized(weight: torch.Tensor, scale: torch.Tensor, quantizer: str) -> torch.Tensor:
    """The values that a matrix of codes represents, in float32."""
    if quantizer.startswith("group"):
        scale = scale.repeat_interleave(BLOCK, 0)[: weight.shape[0]].repeat_interleave(BLOCK, 1)
    return weight.float() * scale
