"""Decides which operators Inductor computes in kernels that it generates; such a kernel may also compute neighbouring operators."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.lowering import fallbacks, lowerings

from ..convert.converter import target_of

#: Prefixes of names: library calls that also have a lowering in Inductor, and operators that write into memory that others wrote before.
_APART = (
    *("mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "mv", "_int_mm", "_grouped_mm", "_scaled", "_sparse", "convolution", "_convolution"),
    *("sort", "topk", "_cudnn", "miopen", "index_put", "_unsafe_index_put", "scatter", "copy_", "bucketize", "as_strided", "resize"),
)


def written_by_inductor(node: Any) -> bool:
    """Whether Inductor generates the kernel that computes a node; that kernel may also compute neighbouring nodes. Sizes need no kernel."""
    name, val = target_of(node).partition(".")[2], node.meta.get("val")
    computes = isinstance(val, torch.Tensor) or isinstance(val, (list, tuple)) and any(isinstance(each, torch.Tensor) for each in val)
    if not computes or name.startswith(_APART) or "attention" in name:
        return False
    if getattr(node.target, "namespace", "aten") not in ("aten", "prims"):  # all-reduces, higher-order operators
        return False
    return node.op == "call_function" and node.target in lowerings and node.target not in fallbacks
