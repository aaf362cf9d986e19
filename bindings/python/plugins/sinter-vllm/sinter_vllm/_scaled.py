"""Converts linear layers of e4m3 from the form that vLLM leaves after loading to the form that plans take.

Three formats are supported. "row": a scale for each row and each output channel, as in compressed-tensors' FP8-dynamic checkpoints. "group": a
scale for 128 of a row and 128 x 128 of a matrix, as in DeepSeek's and Qwen3's. "static": a scale for a matrix, and a given one for the rows that
it multiplies, as in ModelOpt's. vLLM's kernels quantise rows by the same rules. With DeepGEMM, scales of rows are powers of two
("group_ue8m0"). FlashInfer's kernel, which vLLM takes below 32 rows if it is installed, has plain scales.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch

#: vLLM's kernels that leave e4m3 codes and f32 scales on a layer, in the layout that plans read. Others repack, or keep rows in 16 bits.
_KERNELS = (
    "CutlassFP8ScaledMMLinearKernel",
    "ChannelWiseTorchFP8ScaledMMLinearKernel",
    "PerTensorTorchFP8ScaledMMLinearKernel",
    "RowWiseTorchFP8ScaledMMLinearKernel",
    "CutlassFp8BlockScaledMMKernel",
    "DeepGemmFp8BlockScaledMMKernel",
    "FlashInferFp8DeepGEMMDynamicBlockScaledKernel",
    "TritonFp8BlockScaledMMKernel",
)

#: The elements of rows and of matrices that share a scale, in the form of vLLM's GroupShape: -1 stands for all.
_FORMATS = {((1, -1), (-1, 1)): "row", ((1, 128), (128, 128)): "group", ((-1, -1), (-1, -1)): "static"}


def kernel_of(linear: Any) -> Any:
    """vLLM's kernel of a layer of e4m3; None for another layer."""
    return getattr(linear.quant_method, "fp8_linear", None) or getattr(getattr(linear, "scheme", None), "fp8_linear", None)


def quantizer_of(name: str, linear: Any, kernel: Any, servers: Any) -> Tuple[str, str]:
    """The quantizer of a layer, one of ``QUANTIZERS``, and why no plan takes it; one of both is ""."""
    if type(kernel).__name__ not in _KERNELS:
        return "", f"{name} is computed by {type(kernel).__name__}"
    rows, matrix = kernel.config.activation_quant_key.scale, kernel.config.weight_quant_key.scale
    shapes = tuple(rows.group_shape), tuple(matrix.group_shape)
    found = _FORMATS.get(shapes, "")
    if not found or rows.static != (found == "static"):
        how = "given" if rows.static else "computed"
        return "", f"a scale of {name} is shared by {shapes[0]} of its rows ({how}) and {shapes[1]} of its weight, which no plan takes"
    return found + ("_ue8m0" if found == "group" and getattr(kernel, "use_deep_gemm_e8m0", False) else ""), ""


def matrix_of(linear: Any, quantizer: str) -> torch.Tensor:
    """Codes [n, k]. For kernels without blocks vLLM transposes the loaded matrix; the memory is the same."""
    weight: torch.Tensor = linear.weight if quantizer.startswith("group") else linear.weight.t()
    return weight


def scale_of(linear: Any) -> torch.Tensor:
    """The scales of a layer's codes."""
    found: Optional[torch.Tensor] = getattr(linear, "weight_scale_inv", None)
    scale: torch.Tensor = linear.weight_scale if found is None else found
    return scale


def _scales_of_rows(linear: Any, quantizer: str) -> "List[Any]":
    """The given scale of the rows that a layer multiplies, if it has one."""
    return [getattr(linear, "input_scale", None)] if quantizer == "static" else []


def reason_against(name: str, linear: Any, quantizer: str, servers: Any, dtype: torch.dtype) -> str:
    """Why no plan takes the codes and scales of a layer that is quantised by `quantizer`; "" if a plan may."""
    if getattr(linear, "input_scale_ub", None) is not None:
        return f"the scales of rows of {name} have an upper bound"
    codes, scale = matrix_of(linear, quantizer), scale_of(linear)
    if codes.dtype != torch.float8_e4m3fn or not codes.is_contiguous():
        return f"the weight of {name} is {codes.dtype} with strides {codes.stride()}, not contiguous float8_e4m3fn"
    rows, columns = codes.shape
    blocks = quantizer.startswith("group")
    unit = (2 * servers.BLOCK if blocks and name == "gate_up_proj" else 16, servers.BLOCK if blocks else 16)
    if rows % unit[0] or columns % unit[1]:
        return f"the weight of {name} is {rows} x {columns}: its extents must be multiples of {unit[0]} and {unit[1]}"
    shape = servers.scale_shape(rows, columns, quantizer)
    behind = shape[0] // 2 * shape[1] * scale.element_size() if shape else 0
    if name == "gate_up_proj" and behind % 16:
        return f"the scales of up in {name} begin {behind} bytes after the scales of gate; plans need a multiple of 16"
    for one, wanted in [(scale, shape), *((given, ()) for given in _scales_of_rows(linear, quantizer))]:
        if not isinstance(one, torch.Tensor):
            return f"a scale of the rows of {name} is missing"
        if one.dtype != torch.float32 or tuple(one.shape) != wanted or not one.is_contiguous():
            return f"scales of {name} are {one.dtype} {tuple(one.shape)} with strides {one.stride()}, not contiguous float32 {wanted}"
        if one.data_ptr() % 16:
            return f"scales of {name} begin at the address {one.data_ptr():#x}; plans need a multiple of 16"
    return ""


def scales_of(linears: "List[Any]", quantizer: str, servers: Any) -> "List[torch.Tensor]":
    """The scales of layers; then the given scales of their rows."""
    return [*map(scale_of, linears), *(one for linear in linears for one in _scales_of_rows(linear, quantizer))]
