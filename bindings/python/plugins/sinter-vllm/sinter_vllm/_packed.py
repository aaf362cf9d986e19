"""Linear layers with weights of four bits, in the order in which vLLM's Marlin kernels leave them after loading.

Checkpoints of AWQ, GPTQ and compressed-tensors (pack-quantized) look alike then: codes as int32 [k / 16, 2 n], scales as [groups, n], zeros, if
there are any, as int32 [groups, n / 8]. Plans read codes and scales from vLLM's memory. Zeros are unpacked once, to as many bytes as scales have.
On Hopper vLLM prefers Machete for groups of 64 and 128, whose order of codes is another: vLLM must be told to take Marlin.
"""

from __future__ import annotations

from typing import Any, List, Tuple

import torch

from . import _formats

_MARLIN, _MACHETE = "MarlinLinearKernel", "MacheteLinearKernel"

#: vLLM's names of types of codes: symmetric ones, and those with zeros.
_TYPES = ("uint4b8", "uint4")


def kernel_of(linear: Any) -> Any:
    """vLLM's kernel of a layer with weights of few bits; None for another layer."""
    kernel = getattr(linear.quant_method, "kernel", None) or getattr(getattr(linear, "scheme", None), "kernel", None)
    return kernel if hasattr(getattr(kernel, "config", None), "weight_type") else None


def quantizer_of(name: str, linear: Any, kernel: Any, servers: Any) -> Tuple[str, str]:
    """The quantizer of a layer, one of ``packed_matrix.PACKED``, and why no plan takes it; one of both is ""."""
    config, found = kernel.config, type(kernel).__name__
    if str(config.weight_type) not in _TYPES:
        return "", f"{name} has weights of {config.weight_type}; plans take {' and '.join(_TYPES)}"
    quantizer: str = servers.packed_matrix.name_of(config.group_size, bool(config.zero_points))
    if not quantizer:
        return "", f"{name} has groups of {config.group_size}, must be one of {' '.join(map(str, _formats.GROUPS))}"
    if found == _MACHETE:
        return "", f"{name} is computed by {found}, whose order of codes no plan reads: {_formats.TAKE_MARLIN}"
    if found != _MARLIN:
        return "", f"{name} is computed by {found}, not by {_MARLIN}"
    if config.act_type.itemsize < 2:
        return "", f"rows of {name} are quantised to {config.act_type} (VLLM_MARLIN_INPUT_DTYPE)"
    if config.has_g_idx and not _is_sorted(linear.g_idx_sort_indices):
        return "", f"{name} was quantised in the order of activations (desc_act), so its rows would have to be permuted"
    return quantizer, ""


def _is_sorted(indices: torch.Tensor) -> bool:
    return bool(torch.equal(indices, torch.arange(len(indices), device=indices.device, dtype=indices.dtype)))


def _tensors(linear: Any) -> "Tuple[Any, ...]":
    """Codes, scales and zeros, under the names that the layer's method gave them."""
    found: "Tuple[Any, ...]" = tuple(kernel_of(linear)._get_weight_params(linear))[:3]
    return found


def reason_against(name: str, linear: Any, quantizer: str, servers: Any, dtype: torch.dtype) -> str:
    """Why no plan takes the tensors of a layer; "" if a plan may."""
    packed = servers.packed_matrix
    how = packed.PACKED[quantizer]
    k, n = kernel_of(linear).config.partition_weight_shape
    reason: str = packed.reason_against_extents(n // (2 if name == "gate_up_proj" else 1), k, how)
    if reason:
        return f"the weight of {name} is {n} x {k}: {'of gate and of up ' if name == 'gate_up_proj' else ''}{reason}"
    if k == how.group:
        return f"{name} has one group, whose scales Marlin orders in another way"
    groups = k // how.group
    wanted = [("weight", torch.int32, (k // 16, 2 * n)), ("scales", dtype, (groups, n)), ("zeros", torch.int32, (groups, n // 8))]
    for one, (what, kind, shape) in zip(_tensors(linear), wanted if how.zeros else wanted[:2]):
        if not isinstance(one, torch.Tensor):
            return f"the {what} of {name} cannot be found"
        if one.dtype != kind or tuple(one.shape) != shape or not one.is_contiguous():
            return f"the {what} of {name}: {one.dtype} {tuple(one.shape)} with strides {one.stride()}, not contiguous {kind} {shape}"
        if one.data_ptr() % 16:
            return f"the {what} of {name} begins at the address {one.data_ptr():#x}; plans need a multiple of 16"
    return ""


def matrix_of(linear: Any, quantizer: str) -> torch.Tensor:
    """Codes as int8 [k / 16, 8 n]."""
    codes: torch.Tensor = _tensors(linear)[0]
    return codes.data.view(torch.int8)


def scales_of(linears: "List[Any]", quantizer: str, servers: Any) -> "List[torch.Tensor]":
    """The scales of layers, then, if they have some, their zeros."""
    packed = servers.packed_matrix
    found = [_tensors(linear) for linear in linears]
    scales: "List[torch.Tensor]" = [of for _, of, _ in found]
    if not packed.PACKED[quantizer].zeros:
        return scales
    return scales + [torch.nn.Parameter(packed.zeros_of(zeros.data, of.dtype), requires_grad=False) for _, of, zeros in found]
