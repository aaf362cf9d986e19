"""Norms that vLLM keeps as operators in the graphs that Inductor compiles (``torch.ops.vllm_ir``), as ops of a chain."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from ..._functions import rsqrt, square
from .arrays import Array, Refused, of
from .converter import Converter, target_of
from .op_table import row


def _normed(c: Converter, node: Any, x: Array, at: int) -> Array:
    """The norm of `x` along its last axis. The arguments of `node` from `at` on: weight, epsilon, and the columns of the variance."""
    names = ("weight", "epsilon", "variance_size")
    weight, eps, columns = (node.args[at + i] if at + i < len(node.args) else node.kwargs.get(name) for i, name in enumerate(names))
    if columns is not None:
        raise Refused("a norm whose variance is of some columns")
    wide = x.plain.cast("f32")
    normed = wide * rsqrt(square(wide).mean((-1,), keepdims=True) + eps)
    return of(normed if weight is None else normed * c.array(weight).plain, x.folded)


@row("vllm_ir.rms_norm.default")
def _norm(c: Converter, node: Any) -> Array:
    return _normed(c, node, c.array(node.args[0]), 1)


@row("vllm_ir.fused_add_rms_norm.default", several=True)
def _norm_of_sum(c: Converter, node: Any) -> Tuple[Optional[Array], Array]:
    """The norm of a sum, and the sum.

    vLLM's kernel gives the norm the rounded sum, vLLM's operators the sum before it is rounded. A product that adds the residual leaves the
    rounded sum, and to leave the other one too would cost 0.5 % of a layer. A sum with another norm's result is computed where its norm
    is, so there the norm reads it before it is rounded.
    """
    x, residual = (c.array(argument) for argument in node.args[:2])
    folded, total = max(x.folded, residual.folded), x.plain.cast("f32") + residual.plain.cast("f32")
    summed = of(total.cast(str(residual.value.dtype)), folded)
    is_read = any(user.args[1] == 0 for user in node.users)  # an op without a reader is not part of the chain
    read = of(total, folded) if target_of(node.args[0]) == "vllm_ir.rms_norm.default" else summed
    return _normed(c, node, read, 2) if is_read else None, summed
