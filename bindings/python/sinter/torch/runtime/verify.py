"""``options={"verify": True}``: compares each part's results with the results of torch's own operators in the same graph."""

from __future__ import annotations

import collections
import logging
from typing import Deque, Dict, NamedTuple

import torch

from .register import register

logger = logging.getLogger("sinter")

#: The largest relative difference (Frobenius) by a part's narrowest type: the size that torch's own rounding between operators causes.
BOUNDS: Dict[str, float] = {"bf16": 2e-2, "f16": 4e-3, "f32": 1e-4}
#: The share of the bound that a difference may have, as root mean square, whatever the result's size. Rounding of operands near one
#: leaves such differences where they cancel, as in the mean of a norm's result.
_ABSOLUTE_SHARE = 0.2
#: The share of predicates and integers that may differ, because values at an edge may round to either side.
_MOST_FLIPPED = 1e-3


class Compared(NamedTuple):
    """One comparison: the part and the result in it, the difference, and whether it is within its bound."""

    name: str
    difference: float
    within: bool


#: The last comparisons of this process, in order.
comparisons: Deque[Compared] = collections.deque(maxlen=4096)


def difference(result: torch.Tensor, expected: torch.Tensor, bound: float) -> "tuple[float, bool]":
    """The relative difference, and whether it is within `bound`. NaN and infinities must be in the same places."""
    if not expected.dtype.is_floating_point:
        share = (result != expected).double().mean().item() if expected.numel() else 0.0
        return share, share <= _MOST_FLIPPED
    a, b = result.double(), expected.double()
    finite = torch.isfinite(b)
    if not torch.equal(torch.isfinite(a), finite) or not torch.equal(a[~finite].nan_to_num(7), b[~finite].nan_to_num(7)):
        return float("inf"), False
    a, b = a[finite], b[finite]
    apart, size = (a - b).norm().item(), b.norm().item()
    relative = apart / size if size else apart
    return relative, relative <= bound or apart <= _ABSOLUTE_SHARE * bound * a.numel() ** 0.5


def _compared(result: torch.Tensor, expected: torch.Tensor, name: str, bound: float) -> torch.Tensor:
    if result.is_cuda and torch.cuda.is_current_stream_capturing():
        logger.warning("sinter: %s is compared with torch at no call, because a stream captures it", name)
        return result.clone()
    found, within = difference(result, expected, bound)
    comparisons.append(Compared(name, found, within))
    if within:
        return result.clone()
    logger.warning("sinter: %s differs from torch by %.2e (relative); torch's result is taken", name, found)
    return torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device=result.device).copy_(expected)


def _compared_fake(result: torch.Tensor, expected: torch.Tensor, name: str, bound: float) -> torch.Tensor:
    return torch.empty_strided(result.shape, result.stride(), dtype=result.dtype, device=result.device)


_SCHEMA = "(Tensor result, Tensor expected, str name, float bound) -> Tensor"
register("compared", _SCHEMA, _compared, _compared, _compared_fake, captured=False)  # it reads the difference on the host
