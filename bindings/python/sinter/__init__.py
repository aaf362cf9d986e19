"""Sinter fuses a chain of GPU operators for NVIDIA Hopper at run time, by the fastest plan that its cost model finds.

    import sinter, torch
    ctx = sinter.Context()                       # opens the driver here, not at import
    plan = ctx.prepare("gated_ffn m=M n=3072 k=1024 l=1024 act=silu dtype=bf16", m=128)
    y = plan(x, gate, up, down)                  # torch, CuPy, DLPack; the current stream

Importing the package opens neither the driver nor a compiler. ``sinter.torch`` is imported by itself; it needs torch.
"""

from __future__ import annotations

from ._abi import LogLevel
from ._binding import Binding, GraphNodes
from ._builder import Builder, Value
from ._chain import Chain, TensorInfo, help_text as chain_help
from ._context import Context
from ._dtype import DType
from ._error import Error, Status
from ._functions import *
from ._functions import __all__ as _named
from ._group import Group
from ._library import build_info, version
from ._nvrtc import find_nvrtc
from ._operators import (
    attention,
    avg_pool2d,
    clamp,
    concat,
    conv2d,
    equal,
    gated_ffn,
    gelu,
    gemm_chain,
    grouped_gated_ffn,
    grouped_matmul,
    grouped_matmul_ends,
    layernorm,
    linear,
    lstm_cell,
    max_pool2d,
    maximum,
    minimum,
    next_token,
    not_equal,
    rmsnorm,
    softmax,
    where,
    window,
)
from ._plan import Plan
from ._prepare import Pending
from ._search import Search
from ._slot import Slot
from ._scaled import (
    Quantizer,
    Scaled,
    quantize,
    scaled_gated_ffn,
    scaled_gemm_chain,
    scaled_grouped_gated_ffn,
    scaled_grouped_matmul,
    scaled_matmul,
)
from ._shape import M
from ._stats import Stats
from ._tuning import TuningSet
from ._version import __version__

__all__ = [
    "Binding",
    "Builder",
    "Chain",
    "Context",
    "DType",
    "Error",
    "GraphNodes",
    "Group",
    "LogLevel",
    "M",
    "Pending",
    "Slot",
    "Plan",
    "Quantizer",
    "Scaled",
    "Search",
    "Stats",
    "Status",
    "TensorInfo",
    "TuningSet",
    "Value",
    "__version__",
    "attention",
    "avg_pool2d",
    "build_info",
    "chain_help",
    "clamp",
    "concat",
    "conv2d",
    "equal",
    "find_nvrtc",
    "gated_ffn",
    "gelu",
    "gemm_chain",
    "grouped_gated_ffn",
    "grouped_matmul",
    "grouped_matmul_ends",
    "layernorm",
    "linear",
    "lstm_cell",
    "maximum",
    "minimum",
    "next_token",
    "not_equal",
    "quantize",
    "rmsnorm",
    "scaled_gated_ffn",
    "scaled_gemm_chain",
    "scaled_grouped_gated_ffn",
    "scaled_grouped_matmul",
    "scaled_matmul",
    "softmax",
    "version",
    "where",
]
__all__ += _named
