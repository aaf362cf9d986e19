"""A checkpoint's weights of four bits, brought into the order in which kernels read them: once, where the tensors are."""

from __future__ import annotations

import functools
from typing import Any, List, NamedTuple, Optional, Tuple

import torch

from ..._builder import Builder, Value
from ..._chain import Chain
from ..._error import invalid
from ..._functions import dequantize_e8m0, pack_codes, pack_scales, pack_zeros
from ..runtime.register import FLOATS, need_tensor
from ..runtime.registered_chain import register_chain
from ..runtime.run_chain import by_reference
from ..runtime.store import store



class PackedWeights(NamedTuple):
    """What ``sinter.dequantize_u4_packed`` or ``sinter.dequantize_e2m1_packed`` reads of a matrix [n, k]."""

    codes: torch.Tensor  # int8 [k / 16, 8 n]
    scales: torch.Tensor  # [groups, n]
    zeros: Optional[torch.Tensor]  # [groups, n] of the scales' type; None: 8, or a checkpoint of e2m1


def pack_four_bits(
    checkpoint: str,
    codes: torch.Tensor,
    scales: torch.Tensor,
    zeros: Optional[torch.Tensor] = None,
    g_idx: Optional[torch.Tensor] = None,
) -> PackedWeights:
    """Packs a matrix [n, k]. The results are new tensors; the given ones are only read. docs/four-bit.md has the shapes.

    Args:
        checkpoint: "rows", "awq", "gptq", "gptq_v2" or "compressed_tensors".
        codes: words of int32, or bytes of int8 or uint8.
        scales: f32, f16 or bf16; or bytes of E8M0 (uint8 or int8), which become bf16.
        zeros: words or bytes as `codes`, or floating as `scales`.
        g_idx: the group of each element of k, which a checkpoint of GPTQ has.

    On a GPU a plan runs on torch's current stream; on the host the library's reference computes, which is slow.

    Raises:
        Error: INVALID_ARGUMENT naming the tensor that does not fit. A `g_idx` that is not in the order of groups is
            refused: the elements of k would have to be sorted, and the columns of x too.
    """
    given = [_bytes("codes", codes), _scales(scales)]
    if zeros is not None:
        given.append(zeros.contiguous() if _floating(zeros) else _bytes("zeros", zeros))
    for name, tensor in zip(("scales", "zeros"), given[1:]):
        if tensor.device != codes.device:
            raise invalid(f"{name} are on {tensor.device}, codes on {codes.device}")
    chain = _chain(checkpoint, tuple((tuple(one.shape), _name(one)) for one in given))
    of_codes, of_scales = (info.shape for info in chain.outputs(1)[:2])
    n, k, groups = of_codes[1] // 8, 16 * of_codes[0], of_scales[0]
    for name, info in zip(("scales", "zeros"), chain.outputs(1)[1:]):
        if tuple(info.shape) != (groups, n):
            raise invalid(f"{name} pack to {list(info.shape)}, must be {[groups, n]}: codes are of n = {n}, scales of {groups} groups")
    if k % groups:
        raise invalid(f"scales have {groups} groups, must be a divisor of k, which is {k}")
    if g_idx is not None:
        _check_order(g_idx, k, groups)
    found = _run(chain, given)
    return PackedWeights(found[0], found[1], found[2] if zeros is not None else None)


def _floating(tensor: Any) -> bool:
    need_tensor(tensor, "zeros")
    return bool(tensor.dtype in FLOATS)


def _bytes(name: str, tensor: torch.Tensor) -> torch.Tensor:
    need_tensor(tensor, name)
    if tensor.dtype not in (torch.int32, torch.int8, torch.uint8):
        raise invalid(f"{name} are {tensor.dtype}, must be words of int32, or bytes of int8 or uint8")
    return tensor.contiguous().view(torch.int8)


def _scales(tensor: torch.Tensor) -> torch.Tensor:
    need_tensor(tensor, "scales")
    if tensor.dtype in FLOATS:
        return tensor.contiguous()
    if tensor.dtype not in (torch.int8, torch.uint8, getattr(torch, "float8_e8m0fnu", torch.uint8)):
        raise invalid(f"scales are {tensor.dtype}, must be f32, f16 or bf16, or bytes of E8M0")
    return tensor.contiguous().view(torch.int8)


def _name(tensor: torch.Tensor) -> str:
    return FLOATS.get(tensor.dtype, "s8")


@functools.lru_cache(maxsize=256)
def _chain(checkpoint: str, given: Tuple[Tuple[Tuple[int, ...], str], ...]) -> Chain:
    """The chain that packs tensors of these shapes and types."""
    b = Builder()
    values: List[Value] = [b.constant(dtype, shape) for shape, dtype in given]
    scale = values[1] if given[1][1] != "s8" else dequantize_e8m0(values[1]).cast("bf16")
    packed = [pack_codes(values[0], checkpoint), pack_scales(scale, checkpoint)]
    if len(given) > 2:
        floating = given[2][1] != "s8"
        packed.append((pack_scales if floating else pack_zeros)(values[2], checkpoint).cast(packed[1].dtype))
    return b.finish(*packed)


def _check_order(g_idx: torch.Tensor, k: int, groups: int) -> None:
    need_tensor(g_idx, "g_idx")
    if tuple(g_idx.shape) != (k,):
        raise invalid(f"g_idx has shape {tuple(g_idx.shape)}, must be ({k},)")
    wanted = torch.arange(k, device=g_idx.device) // (k // groups)
    wrong = (g_idx != wanted).nonzero().flatten()
    if wrong.numel():
        at = int(wrong[0])
        raise invalid(
            f"g_idx[{at}] is {int(g_idx[at])}, must be {int(wanted[at])}: the matrix was quantised in the order of activations (desc_act). "
            "Quantise it without, or sort its elements of k by g_idx, and the columns of x too"
        )


def _run(chain: Chain, given: List[torch.Tensor]) -> List[torch.Tensor]:
    device = given[0].device
    with torch.no_grad():
        if device.type == "cuda":
            plan = store.find_chain(device.index, chain, register_chain(chain), 1)
            return list(plan(*given))
        if device.type != "cpu":
            raise invalid(f"codes are on {device}, must be on a GPU or the host")
        return by_reference(chain, given, 1)
