"""Registers operators of ``torch.ops.sinter``.

They are registered by ``torch.library.Library`` itself, which costs a few microseconds less for each call than
``torch.library.custom_op``.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import torch

#: The library's names of types of 16 bits, and of all floating types.
HALVES: Dict[torch.dtype, str] = {torch.bfloat16: "bf16", torch.float16: "f16"}
FLOATS: Dict[torch.dtype, str] = {**HALVES, torch.float32: "f32"}

_lib: Any = torch.library.Library("sinter", "FRAGMENT")  # type: ignore[no-untyped-call]


def _tags(captured: bool) -> Tuple[Any, ...]:
    """Tags for Inductor: it must keep the strides that the kernels were made for, and must not capture an operator with `captured` False."""
    strides = getattr(torch.Tag, "needs_exact_strides", None) or torch.Tag.needs_fixed_stride_order
    unsafe = None if captured else getattr(torch.Tag, "cudagraph_unsafe", None)
    return tuple(tag for tag in (torch.Tag.pt2_compliant_tag, strides, unsafe) if tag is not None)


def register(
    name: str, schema: str, on_gpu: Callable[..., Any], on_host: Callable[..., Any], fake: Callable[..., Any], captured: bool = True
) -> None:
    """Defines an operator by its functions for CUDA, the CPU and fake tensors. `captured`: CUDA graphs may hold it."""
    _lib.define(name + schema, tags=_tags(captured))
    _lib.impl(name, on_gpu, "CUDA")
    _lib.impl(name, on_host, "CPU")
    torch.library.register_fake(f"sinter::{name}", fake, lib=_lib)


def need_tensor(value: object, name: str) -> None:
    """Raises if `value` is not a tensor; torch's dispatcher lets None through.

    Raises:
        TypeError: naming `name`.
    """
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}, not a tensor")
