"""Launches of plans on torch's tensors, and the tensors that they make."""

from __future__ import annotations

import ctypes
from typing import Any, List, NamedTuple, Tuple

import torch

from ..._buffers import torch_dtype
from ..._chain import Chain, TensorInfo
from ..._error import invalid
from ..._library import call
from ..._plan import Plan
from ..._stream import current_of_torch
from .groups import Split


def dense(value: torch.Tensor) -> torch.Tensor:
    """`value` as ``launch`` reads it: without gaps, at an address that is aligned to 16 bytes. Copied only if it is not so."""
    value = value.contiguous()
    return value.clone() if value.data_ptr() % 16 else value


def launch(
    plan: Plan, addresses: Tuple[int, ...], rows: int, device: int, pdl: bool = False, split: "Split | None" = None
) -> None:
    """Enqueues a plan on torch's current stream. `pdl`: it may begin while the kernel ahead ends. `split`: the group that splits the chain."""
    if rows == 0:
        return
    for i, address in enumerate(addresses):
        if address % 16:
            raise invalid(f"buffer {i} is at address {address:#x}, which is not aligned to 16 bytes")
    stream = current_of_torch(device)
    space = None
    if plan.shares_workspace:
        workspace = plan.context._workspaces.address(stream, plan.workspace_size)
    else:
        space = workspace_of_call(plan, stream, device)
        workspace = space.data_ptr()
    buffers = (ctypes.c_uint64 * len(addresses))(*addresses)
    if split is None:
        plan._launch(buffers, workspace, stream, rows, pdl)
    else:
        split.launch(plan, buffers, workspace, stream, rows, pdl)


def workspace_of_call(plan: Plan, stream: int, device: int) -> torch.Tensor:
    """A workspace from torch's memory, which returns to torch after the launch. Each launch, or replay, writes its zeros."""
    space = torch.empty(plan.workspace_size, dtype=torch.uint8, device=torch.device("cuda", device))
    if plan.workspace_size:
        call("sinter_plan_init_workspace", plan._get(), space.data_ptr(), plan.workspace_size, stream or None)
    return space


def grown(two: int, three: int, rows: Any) -> Any:
    """The value at M = `rows` of a factor times a power of M, determined by its values at M = 2 and 3."""
    power = 0
    while two * 3**power != three * 2**power:
        power += 1
    return two // 2**power * rows**power


class Form(NamedTuple):
    """Extents and strides of a chain's buffer, of which some may be symbols, and its type."""

    shape: List[Any]
    strides: List[Any]
    dtype: torch.dtype


def form_at(two: TensorInfo, three: TensorInfo, rows: Any) -> Form:
    """The form at M = `rows` of a buffer with the forms `two` and `three` at M = 2 and 3."""
    shape, strides = ([grown(a, b, rows) for a, b in zip(*each)] for each in ((two.shape, three.shape), (two.strides, three.strides)))
    return Form(shape, strides, torch_dtype(two.dtype))


def fake_outputs(chain: Chain, rows: Any, like: torch.Tensor) -> List[torch.Tensor]:
    """Fake outputs of a chain at M = `rows`."""
    forms = (form_at(two, three, rows) for two, three in zip(chain.outputs(2), chain.outputs(3)))
    return [like.new_empty_strided(form.shape, form.strides, dtype=form.dtype) for form in forms]
