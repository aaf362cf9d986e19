"""Converts linear layers of e4m3 from the form that vLLM leaves after loading to the form that plans take.

Two formats are supported. "row": a scale for each row and each output channel, as in compressed-tensors' FP8-dynamic checkpoints. "group": a
scale for 128 of a row and 128 x 128 of a matrix, as in DeepSeek's and Qwen3's. vLLM's kernels quantise rows by the same rules. With
DeepGEMM, scales of rows are powers of two ("group_ue8m0"). FlashInfer's kernel, which vLLM takes below 32 rows if it is
installed, has plain scales.
"""

from __future__ import annotations

import os
import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch

#: Layers of e4m3 are linked if it is 1: vLLM has not run with them yet.
VARIABLE = "SINTER_VLLM_E4M3"

#: vLLM's kernels that leave e4m3 codes and f32 scales on a layer, in the layout that plans read. Others repack, or keep rows in 16 bits.
_KERNELS = (
    "CutlassFP8ScaledMMLinearKernel",
    "ChannelWiseTorchFP8ScaledMMLinearKernel",
    "RowWiseTorchFP8ScaledMMLinearKernel",
    "CutlassFp8BlockScaledMMKernel",
    "DeepGemmFp8BlockScaledMMKernel",
    "FlashInferFp8DeepGEMMDynamicBlockScaledKernel",
    "TritonFp8BlockScaledMMKernel",
)

#: The elements of rows and of matrices that share a scale, in the form of vLLM's GroupShape: -1 stands for all.
_FORMATS = {((1, -1), (-1, 1)): "row", ((1, 128), (128, 128)): "group"}

#: Layers by the address of their codes.
_linears: "Dict[int, weakref.ref[Any]]" = {}


def quantizer_of(name: str, linear: Any) -> Tuple[str, str]:
    """The quantizer of a quantised linear layer, one of ``QUANTIZERS``, and why no plan takes it; one of both is ""."""
    kernel = getattr(linear.quant_method, "fp8_linear", None) or getattr(getattr(linear, "scheme", None), "fp8_linear", None)
    if kernel is None:
        return "", f"{name} is quantised by {type(linear.quant_method).__name__}"
    if type(kernel).__name__ not in _KERNELS:
        return "", f"{name} is computed by {type(kernel).__name__}"
    rows, matrix = kernel.config.activation_quant_key.scale, kernel.config.weight_quant_key.scale
    if rows.static:
        return "", f"rows of {name} have one given scale (static); a scale for each row, or for 128 of a row, is taken"
    shapes = tuple(rows.group_shape), tuple(matrix.group_shape)
    if shapes not in _FORMATS:
        return "", f"a scale of {name} is shared by {shapes[0]} of its rows and {shapes[1]} of its weight, which no plan takes"
    found = _FORMATS[shapes]
    return found + ("_ue8m0" if found == "group" and getattr(kernel, "use_deep_gemm_e8m0", False) else ""), ""


def reason_to_wait() -> str:
    """Why layers with a supported format are not linked; "" if that was asked for."""
    if os.environ.get(VARIABLE, "") == "1":
        return ""
    return f"its layers are of e4m3, and {VARIABLE}=1 is not set: vLLM has not run with such plans yet"


def matrix_of(linear: Any, quantizer: str) -> torch.Tensor:
    """Codes [n, k]. For kernels with scales for rows and channels vLLM transposes the loaded matrix; the memory is the same."""
    weight: torch.Tensor = linear.weight.t() if quantizer == "row" else linear.weight
    return weight


def scale_of(linear: Any) -> torch.Tensor:
    """The scales of a layer's codes."""
    found: Optional[torch.Tensor] = getattr(linear, "weight_scale_inv", None)
    scale: torch.Tensor = linear.weight_scale if found is None else found
    return scale


def reason_against(name: str, linear: Any, quantizer: str, servers: Any) -> str:
    """Why no plan takes the codes and scales of a layer that is quantised by `quantizer`; "" if a plan may."""
    if getattr(linear, "input_scale_ub", None) is not None:
        return f"the scales of rows of {name} have an upper bound"
    codes, scale = matrix_of(linear, quantizer), scale_of(linear)
    if codes.dtype != torch.float8_e4m3fn or not codes.is_contiguous():
        return f"the weight of {name} is {codes.dtype} with strides {codes.stride()}, not contiguous float8_e4m3fn"
    rows, columns = codes.shape
    unit = (16, 16) if quantizer == "row" else (2 * servers.BLOCK if name == "gate_up_proj" else 16, servers.BLOCK)
    if rows % unit[0] or columns % unit[1]:
        return f"the weight of {name} is {rows} x {columns}: its extents must be multiples of {unit[0]} and {unit[1]}"
    shape = servers.scale_shape(rows, columns, quantizer)
    behind = shape[0] // 2 * shape[1] * scale.element_size()
    if name == "gate_up_proj" and behind % 16:
        return f"the scales of up in {name} begin {behind} bytes after the scales of gate; plans need a multiple of 16"
    if scale.dtype != torch.float32 or tuple(scale.shape) != shape or not scale.is_contiguous():
        return f"scales of {name} are {scale.dtype} {tuple(scale.shape)} with strides {scale.stride()}, not contiguous float32 {shape}"
    return ""


def take(linears: "List[Any]", quantizer: str) -> "Tuple[Tuple[torch.Tensor, ...], Tuple[torch.Tensor, ...]]":
    """Codes [n, k] and scales of layers, as parameters, and remembers the layers for ``product``."""
    codes = tuple(torch.nn.Parameter(matrix_of(linear, quantizer).data, requires_grad=False) for linear in linears)
    for linear, one in zip(linears, codes):
        _linears[one.data_ptr()] = weakref.ref(linear)
    return codes, tuple(scale_of(linear) for linear in linears)


def product(x: torch.Tensor, codes: torch.Tensor) -> Optional[torch.Tensor]:
    """x times a matrix, computed by the kernels of the vLLM layer that has the matrix; None if no layer has it."""
    linear = _linears.get(codes.data_ptr(), lambda: None)()
    return None if linear is None else own(linear, x)


def own(linear: Any, x: torch.Tensor) -> torch.Tensor:
    """vLLM's product of a layer without a bias, before any sum over GPUs."""
    y: torch.Tensor = linear.quant_method.apply(linear, x)
    return y
