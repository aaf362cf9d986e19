"""Linear layers of vLLM whose matrices are codes: their format, their tensors as plans take them, and their products by vLLM.

A format has a file: `_scaled` for e4m3, `_packed` for four bits. Both leave the tensors where vLLM left them after loading.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional, Tuple

import torch

from . import _formats, _packed, _scaled

#: Layers by the address of their codes.
_linears: "Dict[int, weakref.ref[Any]]" = {}


def quantizer_of(name: str, linear: Any, servers: Any) -> Tuple[str, str]:
    """The quantizer of a quantised linear layer, as the operator names it, and why no plan takes it; one of both is ""."""
    for of in (_scaled, _packed):
        kernel = of.kernel_of(linear)
        if kernel is not None:
            found: Tuple[str, str] = of.quantizer_of(name, linear, kernel, servers)
            return found
    return "", f"{name} is quantised by {type(linear.quant_method).__name__}"


def _format(quantizer: str) -> Any:
    return _packed if _formats.is_packed(quantizer) else _scaled


def reason_against(name: str, linear: Any, quantizer: str, servers: Any, dtype: torch.dtype) -> str:
    """Why no plan takes the codes and scales of a layer that is quantised by `quantizer`; "" if a plan may. `dtype`: of the rows."""
    reason: str = _format(quantizer).reason_against(name, linear, quantizer, servers, dtype)
    return reason


def matrix_of(linear: Any, quantizer: str) -> torch.Tensor:
    """A layer's codes, as the operator takes them. Their memory is vLLM's."""
    matrix: torch.Tensor = _format(quantizer).matrix_of(linear, quantizer)
    return matrix


def most_rows(quantizer: str, servers: Any) -> Optional[int]:
    """The most rows for which there are plans; None: no limit."""
    most: Optional[int] = servers.packed_matrix.MOST_ROWS if _formats.is_packed(quantizer) else None
    return most


def take(linears: "List[Any]", quantizer: str, servers: Any) -> "Tuple[Tuple[torch.Tensor, ...], Tuple[torch.Tensor, ...]]":
    """Codes of layers as parameters, and the operator's scales. Remembers the layers for ``product``."""
    codes = tuple(torch.nn.Parameter(matrix_of(linear, quantizer).data, requires_grad=False) for linear in linears)
    for linear, one in zip(linears, codes):
        _linears[one.data_ptr()] = weakref.ref(linear)
    return codes, tuple(_format(quantizer).scales_of(linears, quantizer, servers))


def product(x: torch.Tensor, codes: torch.Tensor) -> Optional[torch.Tensor]:
    """x times a matrix, computed by the kernels of the vLLM layer that has the matrix; None if no layer has it."""
    linear = _linears.get(codes.data_ptr(), lambda: None)()
    return None if linear is None else own(linear, x)


def own(linear: Any, x: torch.Tensor) -> torch.Tensor:
    """vLLM's product of a layer without a bias, before any sum over GPUs."""
    y: torch.Tensor = linear.quant_method.apply(linear, x)
    return y
