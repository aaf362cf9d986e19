"""``torch.ops.sinter.experts``: the gated FFN of a mixture of experts, by the ids and weights of a router."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple

import torch

from ..._chain import Chain
from ..._error import Error, invalid
from ..._plan import Plan
from .buckets import BUCKETS, bucket
from .ops import _ACTIVATIONS, _DTYPES, _check_act, dense, launch, need_tensor, reason_against_pair, register
from .run_chain import Place, patience
from .store import store
from .warn import warn_once

MOST_EXPERTS, MOST_TOP = 1024, 32

#: Plans that no call waits for, by device, chain and bucket; one more bucket holds all rows above the last.
_places: Dict[Tuple[int, str, int], Place] = {}
store.when_dropped(_places.clear)


def experts_line(experts: int, top: int, n: int, k: int, l: int, act: str, dtype: torch.dtype, layout: str = "oi") -> str:
    """The text of the chain that the operator computes; M is left open.

    Raises:
        Error: INVALID_ARGUMENT for a dtype or an activation that there is none for.
    """
    if dtype not in _DTYPES:
        raise invalid(f"dtype is {dtype}; there are torch.bfloat16 and torch.float16")
    _check_act(act)
    return (
        f"grouped_gated_ffn m=M experts={experts} top={top} n={n} k={k} l={l} act={act} order=gate_up layout={layout} dtype={_DTYPES[dtype]}"
    )


def extents_of(w1: torch.Tensor, w2: torch.Tensor, layout: str = "oi") -> Tuple[int, int, int, int]:
    """Experts, n, k and l of w1 [experts, 2 n, k] and w2 [experts, l, n], or of both with the last two axes exchanged ("io")."""
    out, inner = (1, 2) if layout == "oi" else (2, 1)
    return w2.shape[0], w2.shape[inner], w1.shape[inner], w2.shape[out]


def reason_against_experts(w1: torch.Tensor, w2: torch.Tensor, layout: str = "oi") -> str:
    """Why no plan computes experts with these matrices; "" if a plan may."""
    reason = reason_against_pair("the experts' matrices", w1, w2, 3, layout)
    if not reason and len(w1) > MOST_EXPERTS:
        return f"there are {len(w1)} experts, more than {MOST_EXPERTS}"
    return reason


def launch_experts(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    act: str = "silu",
    layout: str = "oi",
    out: "torch.Tensor | None" = None,
    within: "Sequence[int] | None" = None,
    behind: bool = False,
    pdl: bool = False,
) -> "torch.Tensor | None":
    """The result of a plan; None if torch, or a server, computes.

    Args:
        x, ids, weights, w1, w2, act, layout: the operator's arguments, checked before.
        out: contiguous memory for the result; else new memory is allocated.
        within: the configured numbers of rows for which plans are made; None: all.
        pdl: the plan may begin while the kernel ahead ends.
        behind: builds run in the background. Only a call under capture waits for one. A failed build is repeated a few times at most.
    """
    device, rows = x.device.index, x.shape[0]
    experts, n, k, l = extents_of(w1, w2, layout)
    if rows == 0:
        return x.new_empty((0, l)) if out is None else out
    line = experts_line(experts, ids.shape[1], n, k, l, act, x.dtype, layout)
    plan = store.ready(device, line, rows)
    if plan is None:
        plan = _built_behind(device, line, rows) if behind else _of_bucket(device, line, rows, within)
    if plan is None:
        return None
    y = x.new_empty((rows, l)) if out is None else out
    return _launch(plan, (x, ids.to(torch.int32), weights.to(torch.float32)), (w1, w2), y, pdl)


def launch_line(
    line: str, small: Tuple[torch.Tensor, ...], matrices: Tuple[torch.Tensor, ...], out: torch.Tensor, within: "Sequence[int] | None"
) -> "torch.Tensor | None":
    """`out`, computed by a plan of the chain `line`, which may begin while the kernel ahead ends; None if a server computes.

    Args:
        small: its inputs with a row for each token; they are copied if they have gaps or are not aligned.
        matrices: its constants, contiguous.
        within: see ``launch_experts``.
    """
    device, rows = out.device.index, out.shape[0]
    if rows == 0:
        return out
    plan = store.ready(device, line, rows) or _of_bucket(device, line, rows, within)
    return None if plan is None else _launch(plan, small, matrices, out, True)


def _of_bucket(device: int, line: str, rows: int, within: "Sequence[int] | None") -> Optional[Plan]:
    return store.find(device, line, (*BUCKETS, BUCKETS[-1] + 1)[bucket(rows)], within)


def _launch(
    plan: Plan, small: Tuple[torch.Tensor, ...], matrices: Tuple[torch.Tensor, ...], y: torch.Tensor, pdl: bool
) -> torch.Tensor:
    given = (*(dense(value) for value in small), *matrices, y)
    launch(plan, tuple(value.data_ptr() for value in given), y.shape[0], y.device.index, pdl)
    return y


def _built_behind(device: int, line: str, rows: int) -> Optional[Plan]:
    """The plan, if it is there by now; else it is built in the background, like the plan of a compiled graph's part."""
    key = device, line, bucket(rows)
    place = _places.get(key) or _places.setdefault(key, Place(device, Chain.from_text(line), rows, None))
    return place.plan or place.look(patience("later"))


def _check(
    x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, act: str, layout: str
) -> None:
    _check_act(act)
    if layout not in ("oi", "io"):
        raise invalid(f"layout is {layout!r}; there are oi and io")
    for name, value in (("x", x), ("ids", ids), ("weights", weights), ("w1", w1), ("w2", w2)):
        need_tensor(value, name)
        if value.device != x.device:
            raise invalid(f"{name} is on {value.device}, x on {x.device}")
    reason = reason_against_experts(w1, w2, layout)
    if reason:
        raise invalid(reason)
    k = extents_of(w1, w2, layout)[2]
    if x.dim() != 2 or x.shape[1] != k or x.dtype != w1.dtype:
        raise invalid(f"x is {x.dtype} {tuple(x.shape)}, not {w1.dtype} (rows, {k})")
    if ids.dim() != 2 or ids.shape[0] != x.shape[0] or not 1 <= ids.shape[1] <= MOST_TOP:
        raise invalid(f"ids has shape {tuple(ids.shape)}, not ({x.shape[0]}, 1 to {MOST_TOP})")
    if ids.dtype not in (torch.int32, torch.int64):
        raise invalid(f"ids is {ids.dtype}, not int32 or int64")
    if weights.shape != ids.shape or not weights.dtype.is_floating_point:
        raise invalid(f"weights is {weights.dtype} {tuple(weights.shape)}, not floating with the shape of ids, {tuple(ids.shape)}")


def _experts_cuda(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    act: str = "silu",
    layout: str = "oi",
    strict: bool = True,
) -> torch.Tensor:
    """`strict`: the first call for a number of rows waits for its plan, and errors are raised. Else torch computes while a plan
    is being built, or if a build fails, which is reported once."""
    y = None
    try:
        _check(x, ids, weights, w1, w2, act, layout)
        y = launch_experts(x, ids, weights, w1, w2, act, layout, behind=not strict)
    except Error as error:
        if strict:
            raise
        warn_once(f"torch computes experts: {error}")
    return _by_torch(x, ids, weights, w1, w2, act, layout) if y is None else y


def _experts_cpu(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    act: str = "silu",
    layout: str = "oi",
    strict: bool = True,
) -> torch.Tensor:
    if strict:
        _check(x, ids, weights, w1, w2, act, layout)
    return _by_torch(x, ids, weights, w1, w2, act, layout)


def _by_torch(
    x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, act: str, layout: str
) -> torch.Tensor:
    """Slots sorted by experts, two grouped products, and the sum over a row's slots in f32 of terms that are rounded as plans round them. The host reads no id."""
    experts, (rows, top) = w1.shape[0], ids.shape
    grouped: Any = getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm")  # noqa: B009  it has no stub
    if layout == "oi":
        w1, w2 = w1.transpose(1, 2), w2.transpose(1, 2)
    flat = ids.reshape(-1)
    of_slot, order = torch.sort(torch.where((flat < 0) | (flat >= experts), experts, flat))
    ends = torch.searchsorted(of_slot, torch.arange(experts, device=x.device, dtype=of_slot.dtype), right=True, out_int32=True)
    gate, up = grouped(x[order // top], w1, offs=ends).float().chunk(2, dim=-1)
    parts = grouped((_ACTIVATIONS[act](gate) * up).to(x.dtype), w2, offs=ends).float()
    # Rows after the last end hold whatever was in memory before.
    parts = torch.where((of_slot < experts)[:, None], parts * weights.reshape(-1)[order].float()[:, None], 0.0).to(x.dtype).float()
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=x.device)
    return parts[back].view(rows, top, parts.shape[1]).sum(1).to(x.dtype)


def _experts_fake(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    act: str = "silu",
    layout: str = "oi",
    strict: bool = True,
) -> torch.Tensor:
    return x.new_empty((x.shape[0], w2.shape[1 if layout == "oi" else 2]))


register(
    (
        (
            "experts",
            "(Tensor x, Tensor ids, Tensor weights, Tensor w1, Tensor w2, str act='silu', str layout='oi', bool strict=True)"
            " -> Tensor",
            {"CUDA": _experts_cuda, "CPU": _experts_cpu, "fake": _experts_fake},
        ),
    )
)


def experts(
    x: torch.Tensor, ids: torch.Tensor, weights: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, act: str = "silu", layout: str = "oi"
) -> torch.Tensor:
    """The sum over t of weights[m, t] w2[e] (act(gate) * up), e = ids[m, t], gate above up in w1[e] x[m]: ``torch.ops.sinter.experts``.

    Args:
        x: [m, k], bf16 or f16.
        ids: [m, top], int32 or int64; one outside of the experts adds nothing, as under expert parallelism.
        weights: [m, top], floating; float32 is not converted first.
        w1: [experts, 2 n, k], contiguous.
        w2: [experts, l, n], contiguous.
        act: "silu", "gelu_tanh", "gelu_erf" or "relu".
        layout: "oi" as above; "io": w1 [experts, k, 2 n], w2 [experts, n, l].

    Returns:
        [m, l], new memory.

    Raises:
        Error: INVALID_ARGUMENT naming what does not fit; STREAM_CAPTURING for a number of rows that was not prepared.
    """
    for name, value in (("x", x), ("ids", ids), ("weights", weights), ("w1", w1), ("w2", w2)):
        need_tensor(value, name)
    _check_act(act)
    result: torch.Tensor = torch.ops.sinter.experts(x, ids, weights, w1, w2, act, layout)
    return result
