"""Operators of ``torch.ops.sinter``.

They are registered by ``torch.library.Library`` itself, which costs a few microseconds less for each call than
``torch.library.custom_op``. On the CPU torch computes them, with the intermediate in float32 as a plan keeps it.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch

from ..._argument import instance
from ..._buffers import contiguous
from ..._chain import Chain
from ..._error import Error, Status, invalid
from ..._library import call
from ..._plan import Binding, Plan
from ..._stream import current_of_torch
from .groups import Split, split_of
from .store import chains, store

_DTYPES: Dict[torch.dtype, str] = {torch.bfloat16: "bf16", torch.float16: "f16"}

_ACTIVATIONS: Dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "silu": torch.nn.functional.silu,
    "relu": torch.nn.functional.relu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "gelu_erf": torch.nn.functional.gelu,
}

_lib: Any = torch.library.Library("sinter", "FRAGMENT")  # type: ignore[no-untyped-call]


def _tags(captured: bool) -> Tuple[Any, ...]:
    """Tags for Inductor: it must keep the strides that the kernels were made for, and must not capture an operator with `captured` False."""
    strides = getattr(torch.Tag, "needs_exact_strides", None) or torch.Tag.needs_fixed_stride_order
    unsafe = None if captured else getattr(torch.Tag, "cudagraph_unsafe", None)
    return tuple(tag for tag in (torch.Tag.pt2_compliant_tag, strides, unsafe) if tag is not None)


def chain_line(n: int, k: int, l: int, act: str, dtype: torch.dtype) -> str:
    """The text of the gated FFN that an operator computes; M is left open.

    Raises:
        Error: INVALID_ARGUMENT for a dtype or an activation that there is none for.
    """
    if dtype not in _DTYPES:
        raise invalid(f"dtype is {dtype}; there are torch.bfloat16 and torch.float16")
    _check_act(act)
    return f"gated_ffn m=M n={n} k={k} l={l} act={act} layout=oi dtype={_DTYPES[dtype]}"


def _check_act(act: str) -> None:
    if act not in _ACTIVATIONS:
        raise invalid(f"act is {act!r}; there are {' '.join(_ACTIVATIONS)}")


def need_tensor(value: object, name: str) -> None:
    """Raises if `value` is not a tensor; torch's dispatcher lets None through.

    Raises:
        TypeError: naming `name`.
    """
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}, not a tensor")


# ---------------------------------------------------------------- Gated MLPs


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
    if gate_up.dtype != down.dtype or gate_up.dtype not in _DTYPES:
        return f"{what} are {gate_up.dtype} and {down.dtype}, not both bfloat16 or float16"
    if n % 8 or k % 8 or l % 8:
        return f"an extent of {what}, {2 * n} x {k} and {l} x {n}, is not a multiple of 8"
    if not (gate_up.is_contiguous() and down.is_contiguous()):
        return f"{what} are not contiguous"
    return ""


def _check_mlp(x: torch.Tensor, weights: Sequence[Tuple[str, torch.Tensor, Tuple[int, ...]]]) -> None:
    if x.dim() < 1:
        raise invalid("x has rank 0: it is [.., k]")
    for name, weight, shape in weights:
        need_tensor(weight, name)
        if weight.dim() != 2 or tuple(weight.shape) != shape:
            raise invalid(f"{name} has shape {tuple(weight.shape)}, not {shape}")
        if weight.dtype != x.dtype or weight.device != x.device:
            raise invalid(f"{name} is {weight.dtype} on {weight.device}, x is {x.dtype} on {x.device}")
        if not weight.is_contiguous():
            raise invalid(f"{name} has strides {weight.stride()}: it must be contiguous")


def _sizes(x: torch.Tensor, down: torch.Tensor) -> Tuple[int, int, int]:
    """n, k, l."""
    need_tensor(x, "x")
    need_tensor(down, "down")
    if down.dim() != 2:
        raise invalid(f"down has rank {down.dim()}, not 2")
    return down.shape[1], x.shape[-1] if x.dim() else 0, down.shape[0]


def _launch_mlp(
    x: torch.Tensor, gate: int, up: int, down: torch.Tensor, sizes: Tuple[int, int, int], act: str
) -> "torch.Tensor | None":
    """The result of a plan; None if torch computes it. `gate`, `up`: addresses."""
    n, k, l = sizes
    device = x.device.index
    rows = x.numel() // k if k else 0
    plan = store.find(device, chain_line(n, k, l, act, x.dtype), rows)
    if plan is None:
        return None
    x = x.contiguous()
    y = torch.empty((*x.shape[:-1], l), dtype=x.dtype, device=x.device)
    launch(plan, (x.data_ptr(), gate, up, down.data_ptr(), y.data_ptr()), rows, device)
    return y


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


def _gated_mlp_cuda(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, act: str = "silu") -> torch.Tensor:
    n, k, l = _sizes(x, down)
    _check_mlp(x, (("gate_up", gate_up, (2 * n, k)), ("down", down, (l, n))))
    gate = gate_up.data_ptr()
    y = _launch_mlp(x, gate, gate + n * k * gate_up.element_size(), down, (n, k, l), act)
    return _merged_by_torch(x, gate_up, down, act) if y is None else y


def _gated_mlp_split_cuda(
    x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, act: str = "silu"
) -> torch.Tensor:
    n, k, l = _sizes(x, down)
    _check_mlp(x, (("gate", gate, (n, k)), ("up", up, (n, k)), ("down", down, (l, n))))
    y = _launch_mlp(x, gate.data_ptr(), up.data_ptr(), down, (n, k, l), act)
    if y is not None:
        return y
    linear = torch.nn.functional.linear
    return linear(_ACTIVATIONS[act](linear(x, gate)) * linear(x, up), down)


def _merged_by_torch(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, act: str) -> torch.Tensor:
    linear = torch.nn.functional.linear
    both = linear(x, gate_up)
    fused = store.settings.silu_and_mul
    if fused is not None and act == "silu":
        return linear(fused(both), down)
    gate, up = both.chunk(2, dim=-1)
    return linear(_ACTIVATIONS[act](gate) * up, down)


def _gated_mlp_cpu(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, act: str = "silu") -> torch.Tensor:
    n, k, l = _sizes(x, down)
    _check_mlp(x, (("gate_up", gate_up, (2 * n, k)), ("down", down, (l, n))))
    return _on_cpu(x, gate_up[:n], gate_up[n:], down, act)


def _gated_mlp_split_cpu(
    x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, act: str = "silu"
) -> torch.Tensor:
    n, k, l = _sizes(x, down)
    _check_mlp(x, (("gate", gate, (n, k)), ("up", up, (n, k)), ("down", down, (l, n))))
    return _on_cpu(x, gate, up, down, act)


def _on_cpu(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, act: str) -> torch.Tensor:
    chain_line(down.shape[1], x.shape[-1], down.shape[0], act, x.dtype)
    linear, wide = torch.nn.functional.linear, x.float()
    inner = _ACTIVATIONS[act](linear(wide, gate.float())) * linear(wide, up.float())
    # A plan rounds what one product hands to the next once.
    return linear(inner.to(x.dtype).float(), down.float()).to(x.dtype)


def _gated_mlp_fake(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, act: str = "silu") -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], down.shape[0]))


def _gated_mlp_split_fake(
    x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, act: str = "silu"
) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], down.shape[0]))


# ---------------------------------------------------------------- Any chain


def register_chain(chain: Chain) -> str:
    """Registers `chain` for ``torch.ops.sinter.run``. Returns the key to pass to it: the chain's digest.

    A compiled graph that holds the key needs the chain registered in the process that runs it.
    """
    key = instance(chain, Chain, "chain").digest
    chains[key] = chain
    return key


def _registered(key: str) -> Chain:
    chain = chains.get(key)
    if chain is None:
        raise Error(Status.NOT_FOUND, f"no chain {key[:16]} is registered here: sinter.torch.register_chain(chain)")
    return chain


def _run_cuda(inputs: List[torch.Tensor], key: str, pdl: bool = False, group: str = "") -> List[torch.Tensor]:
    """`group`: the name of the group over whose ranks the chain sums."""
    chain = _registered(key)
    if not inputs:
        raise invalid("a chain without inputs has no device to run on")
    device = inputs[0].device.index
    rows = _rows(chain, inputs)
    declared = _as_declared(chain, inputs)
    with torch.no_grad():
        if not group:
            result = store.find_chain(device, chain, key, rows)(*declared, pdl=pdl)
        elif rows == 0 and chain.uses_m:
            return _run_fake(inputs, key)
        else:
            over = split_of(group)

            def bind(plan: Plan) -> Binding:
                return plan.bind(*declared, group=over.group)

            (plan,) = over.meet(lambda: [store.find_chain(device, chain, key, rows)], bind)
            result = bind(plan)(pdl=pdl)
    return list(result) if isinstance(result, tuple) else [result]


def _as_declared(chain: Chain, inputs: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """The inputs, made contiguous if the chain requires it. The chain may require other strides."""
    infos = chain.inputs(2)
    return [
        value.contiguous() if i >= len(infos) or infos[i].strides == contiguous(infos[i].shape) else value
        for i, value in enumerate(inputs)
    ]


def _run_cpu(inputs: List[torch.Tensor], key: str, pdl: bool = False, group: str = "") -> List[torch.Tensor]:
    _registered(key)
    raise invalid("input 0 is on the host: a chain runs on a GPU")


def _rows(chain: Chain, inputs: Sequence[torch.Tensor]) -> int:
    for i, value in enumerate(inputs[: chain.input_count]):
        rows = chain.m_of(i, tuple(value.shape))
        if rows is not None:
            return int(rows)
    return 0


def _run_fake(inputs: List[torch.Tensor], key: str, pdl: bool = False, group: str = "") -> List[torch.Tensor]:
    """Fake outputs with the chain's shapes and strides. An extent of M is the symbol of the inputs."""
    from ..._buffers import torch_dtype

    chain = _registered(key)
    rows: Any = 0
    for i, value in enumerate(inputs[: chain.input_count]):
        axis = chain._m_axes[i]
        if axis is not None and axis < value.dim():
            rows = value.shape[axis]
            break
    results = []
    for two, three in zip(chain.outputs(2), chain.outputs(3)):
        shape = [grown(a, b, rows) for a, b in zip(two.shape, three.shape)]
        strides = [grown(a, b, rows) for a, b in zip(two.strides, three.strides)]
        results.append(inputs[0].new_empty_strided(shape, strides, dtype=torch_dtype(two.dtype)))
    return results


def grown(two: int, three: int, rows: Any) -> Any:
    """The value at M = `rows` of a factor times a power of M, determined by its values at M = 2 and 3."""
    power = 0
    while two * 3**power != three * 2**power:
        power += 1
    return two // 2**power * rows**power


Operators = Tuple[Tuple[str, str, Dict[str, Any]], ...]

_OPERATORS: Operators = (
    (
        "gated_mlp",
        "(Tensor x, Tensor gate_up, Tensor down, str act='silu') -> Tensor",
        {"CUDA": _gated_mlp_cuda, "CPU": _gated_mlp_cpu, "fake": _gated_mlp_fake},
    ),
    (
        "gated_mlp_split",
        "(Tensor x, Tensor gate, Tensor up, Tensor down, str act='silu') -> Tensor",
        {"CUDA": _gated_mlp_split_cuda, "CPU": _gated_mlp_split_cpu, "fake": _gated_mlp_split_fake},
    ),
    (
        "run",
        "(Tensor[] inputs, str key, bool pdl=False, str group='') -> Tensor[]",
        {"CUDA": _run_cuda, "CPU": _run_cpu, "fake": _run_fake},
    ),
)


def register(operators: Operators, captured: bool = True) -> None:
    """Defines operators of (name, schema, functions by dispatch key, "fake" among them). `captured`: CUDA graphs may hold them."""
    for name, schema, functions in operators:
        _lib.define(name + schema, tags=_tags(captured))
        for key, function in functions.items():
            if key == "fake":
                torch.library.register_fake(f"sinter::{name}", function, lib=_lib)
            else:
                _lib.impl(name, function, key)


register(_OPERATORS)


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
    _check_act(act)
    result: torch.Tensor = torch.ops.sinter.gated_mlp(x, gate_up, down, act)
    return result


def gated_mlp_split(
    x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor, act: str = "silu"
) -> torch.Tensor:
    """As ``gated_mlp``, with gate and up [n, k] apart: ``torch.ops.sinter.gated_mlp_split``."""
    for name, value in (("x", x), ("gate", gate), ("up", up), ("down", down)):
        need_tensor(value, name)
    _check_act(act)
    result: torch.Tensor = torch.ops.sinter.gated_mlp_split(x, gate, up, down, act)
    return result


def run(chain: "Chain | str", *inputs: torch.Tensor) -> List[torch.Tensor]:
    """Runs any chain as an operator that torch.compile sees: ``torch.ops.sinter.run``. `chain`: the chain, or its registered key.

    The plan is prepared at the first call for a number of rows.
    """
    key = chain if isinstance(chain, str) else register_chain(chain)
    if not key.isascii():
        raise invalid(f"chain is {key!r}, which is no key of register_chain")
    if not inputs:
        raise invalid("a chain without inputs has no device to run on")
    for i, value in enumerate(inputs):
        need_tensor(value, f"input {i}")
    result: List[torch.Tensor] = torch.ops.sinter.run(list(inputs), key)
    return result


