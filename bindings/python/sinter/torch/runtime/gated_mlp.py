"""``torch.ops.sinter.gated_mlp`` and ``gated_mlp_split``: the gated MLP, with gate above up in one matrix, or the two apart.

On the CPU torch computes them, with the intermediate in float32 as a plan keeps it.
"""

from __future__ import annotations

from typing import Callable, Dict, Optional, Tuple

import torch

from ..._error import invalid
from .launch import launch
from .register import HALVES, need_tensor, register
from .store import store

ACTIVATIONS: Dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": torch.nn.functional.silu,
    "relu": torch.nn.functional.relu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "gelu_erf": torch.nn.functional.gelu,
}

#: Gate above up, or the two.
_Matrices = Tuple[torch.Tensor, ...]


def chain_line(n: int, k: int, l: int, act: str, dtype: torch.dtype) -> str:
    """The text of the gated FFN that an operator computes; M is left open.

    Raises:
        Error: INVALID_ARGUMENT for a dtype or an activation that there is none for.
    """
    check_words(act, dtype)
    return f"gated_ffn m=M n={n} k={k} l={l} act={act} layout=oi dtype={HALVES[dtype]}"


def check_words(act: str, dtype: Optional[torch.dtype] = None) -> None:
    """Checks that there are chains with an activation, and, if it is given, of a type.

    Raises:
        Error: INVALID_ARGUMENT.
    """
    if dtype is not None and dtype not in HALVES:
        raise invalid(f"dtype is {dtype}; there are torch.bfloat16 and torch.float16")
    if act not in ACTIVATIONS:
        raise invalid(f"act is {act!r}; there are {' '.join(ACTIVATIONS)}")


def reason_against_pair(what: str, gate_up: torch.Tensor, down: torch.Tensor, axes: int = 2, layout: str = "oi") -> str:
    """Why no plan computes a gated FFN with these matrices; "" if a plan may. The message calls them `what`.

    Args:
        gate_up: [2 n, k]; of three `axes` [experts, 2 n, k].
        down: [l, n], or [experts, l, n].
        layout: "io": the last two axes of both are exchanged.
    """
    shapes = f"{tuple(gate_up.shape)} and {tuple(down.shape)}"
    if gate_up.dim() != axes or down.dim() != axes:
        return f"{what} have shapes {shapes}, not {axes} axes each"
    out, inner = (-2, -1) if layout == "oi" else (-1, -2)
    n, k, l = down.shape[inner], gate_up.shape[inner], down.shape[out]
    if gate_up.shape[:-2] != down.shape[:-2] or gate_up.shape[out] != 2 * n:
        return f"{what} have shapes {shapes}: gate and up are not twice what down takes"
    if gate_up.dtype != down.dtype or gate_up.dtype not in HALVES:
        return f"{what} are {gate_up.dtype} and {down.dtype}, not both bfloat16 or float16"
    if n % 8 or k % 8 or l % 8:
        return f"an extent of {what}, {2 * n} x {k} and {l} x {n}, is not a multiple of 8"
    if not (gate_up.is_contiguous() and down.is_contiguous()):
        return f"{what} are not contiguous"
    return ""


def _checked(x: torch.Tensor, matrices: _Matrices, down: torch.Tensor) -> Tuple[int, int, int]:
    """n, k and l of matrices that fit."""
    need_tensor(x, "x")
    need_tensor(down, "down")
    if down.dim() != 2:
        raise invalid(f"down has rank {down.dim()}, not 2")
    if x.dim() < 1:
        raise invalid("x has rank 0: it is [.., k]")
    n, k, l = down.shape[1], x.shape[-1], down.shape[0]
    names, rows = (("gate_up",), 2 * n) if len(matrices) == 1 else (("gate", "up"), n)
    for name, weight, shape in (*((name, matrix, (rows, k)) for name, matrix in zip(names, matrices)), ("down", down, (l, n))):
        need_tensor(weight, name)
        if weight.dim() != 2 or tuple(weight.shape) != shape:
            raise invalid(f"{name} has shape {tuple(weight.shape)}, not {shape}")
        if weight.dtype != x.dtype or weight.device != x.device:
            raise invalid(f"{name} is {weight.dtype} on {weight.device}, x is {x.dtype} on {x.device}")
        if not weight.is_contiguous():
            raise invalid(f"{name} has strides {weight.stride()}: it must be contiguous")
    return n, k, l


def _on_gpu(x: torch.Tensor, matrices: _Matrices, down: torch.Tensor, act: str = "silu") -> torch.Tensor:
    n, k, l = _checked(x, matrices, down)
    device = x.device.index
    rows = x.numel() // k if k else 0
    plan = store.find(device, chain_line(n, k, l, act, x.dtype), rows)
    if plan is None:
        return _by_torch(x, matrices, down, act)
    x, gate = x.contiguous(), matrices[0].data_ptr()
    up = matrices[1].data_ptr() if len(matrices) > 1 else gate + n * k * matrices[0].element_size()
    y = torch.empty((*x.shape[:-1], l), dtype=x.dtype, device=x.device)
    launch(plan, (x.data_ptr(), gate, up, down.data_ptr(), y.data_ptr()), rows, device)
    return y


def _by_torch(x: torch.Tensor, matrices: _Matrices, down: torch.Tensor, act: str) -> torch.Tensor:
    linear = torch.nn.functional.linear
    products = tuple(linear(x, matrix) for matrix in matrices)
    fused = store.settings.silu_and_mul
    if len(products) == 1 and fused is not None and act == "silu":
        return linear(fused(products[0]), down)
    gate, up = products if len(products) > 1 else products[0].chunk(2, dim=-1)
    return linear(ACTIVATIONS[act](gate) * up, down)


def _on_host(x: torch.Tensor, matrices: _Matrices, down: torch.Tensor, act: str = "silu") -> torch.Tensor:
    _checked(x, matrices, down)
    check_words(act, x.dtype)
    gate, up = matrices if len(matrices) > 1 else matrices[0].chunk(2)
    linear, wide = torch.nn.functional.linear, x.float()
    inner = ACTIVATIONS[act](linear(wide, gate.float())) * linear(wide, up.float())
    # A plan rounds what one product hands to the next once.
    return linear(inner.to(x.dtype).float(), down.float()).to(x.dtype)


def _fake(x: torch.Tensor, matrices: _Matrices, down: torch.Tensor, act: str = "silu") -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], down.shape[0]))


def _register(name: str, *matrices: str) -> None:
    """Defines an operator whose schema names `matrices` between x and down."""

    def given(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        return lambda x, *more: function(x, more[: len(matrices)], *more[len(matrices) :])

    schema = f"(Tensor x, {', '.join(f'Tensor {each}' for each in matrices)}, Tensor down, str act='silu') -> Tensor"
    register(name, schema, given(_on_gpu), given(_on_host), given(_fake))


_register("gated_mlp", "gate_up")
_register("gated_mlp_split", "gate", "up")


def gated_mlp(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, act: str = "silu") -> torch.Tensor:
    """(act(x w_gate^T) * (x w_up^T)) w_down^T: ``torch.ops.sinter.gated_mlp``.

    Args:
        x: [.., k], bf16 or f16.
        gate_up: [2 n, k], gate above up, contiguous.
        down: [l, n], contiguous.
        act: "silu", "gelu_tanh", "gelu_erf" or "relu".

    Returns:
        [.., l], new memory.

    Raises:
        Error: INVALID_ARGUMENT naming what does not fit; STREAM_CAPTURING for a size that was not prepared.
    """
    for name, value in (("x", x), ("gate_up", gate_up), ("down", down)):
        need_tensor(value, name)
    check_words(act)
    result: torch.Tensor = torch.ops.sinter.gated_mlp(x, gate_up, down, act)
    return result


def gated_mlp_split(
    x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, act: str = "silu"
) -> torch.Tensor:
    """As ``gated_mlp``, with gate and up [n, k] apart: ``torch.ops.sinter.gated_mlp_split``."""
    for name, value in (("x", x), ("gate", gate), ("up", up), ("down", down)):
        need_tensor(value, name)
    check_words(act)
    result: torch.Tensor = torch.ops.sinter.gated_mlp_split(x, gate, up, down, act)
    return result
