"""``torch.ops.sinter.experts``: the gated FFN of a mixture of experts, by the ids and weights of a router."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

import torch

from ..._chain import Chain
from ..._error import Error, invalid
from ..._plan import Plan
from .buckets import BUCKETS, bucket
from .gated_mlp import ACTIVATIONS, check_words, reason_against_pair
from .launch import dense, launch
from .register import HALVES, need_tensor, register
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
    check_words(act, dtype)
    return (
        f"grouped_gated_ffn m=M experts={experts} top={top} n={n} k={k} l={l} act={act} order=gate_up layout={layout} dtype={HALVES[dtype]}"
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


class Call(NamedTuple):
    """The operator's arguments. `strict`: the first call for a number of rows waits for its plan, and errors are raised. Else torch computes
    while a plan is being built, or if a build fails, which is reported once."""

    x: torch.Tensor
    ids: torch.Tensor
    weights: torch.Tensor
    w1: torch.Tensor
    w2: torch.Tensor
    act: str = "silu"
    layout: str = "oi"
    strict: bool = True


def launch_experts(
    of: Call, out: "torch.Tensor | None" = None, within: "Sequence[int] | None" = None, behind: bool = False, pdl: bool = False
) -> "torch.Tensor | None":
    """The result of a plan; None if torch, or a server, computes.

    Args:
        of: checked before.
        out: contiguous memory for the result; else new memory is allocated.
        within: the configured numbers of rows for which plans are made; None: all.
        pdl: the plan may begin while the kernel ahead ends.
        behind: builds run in the background. Only a call under capture waits for one. A failed build is repeated a few times at most.
    """
    experts, n, k, l = extents_of(of.w1, of.w2, of.layout)
    line = experts_line(experts, of.ids.shape[1], n, k, l, of.act, of.x.dtype, of.layout)
    y = of.x.new_empty((of.x.shape[0], l)) if out is None else out
    return launch_line(line, (of.x,), of.ids, of.weights, (of.w1, of.w2), y, within, behind, pdl)


def launch_line(
    line: str,
    rows: Tuple[torch.Tensor, ...],
    ids: torch.Tensor,
    weights: torch.Tensor,
    matrices: Tuple[torch.Tensor, ...],
    out: torch.Tensor,
    within: "Sequence[int] | None",
    behind: bool = False,
    pdl: bool = True,
) -> "torch.Tensor | None":
    """`out`, computed by a plan of the chain `line`; None, with nothing enqueued, if a server or torch computes.

    Args:
        rows: its inputs before ids and weights. Inputs with a row for each token are copied if they have gaps or are not aligned.
        matrices: its constants, contiguous.
        within, behind, pdl: see ``launch_experts``.
    """
    device, count = out.device.index, out.shape[0]
    if count == 0:
        return out
    plan = store.ready(device, line, count)
    if plan is None:
        plan = _built_behind(device, line, count) if behind else _of_bucket(device, line, count, within)
    if plan is None:
        return None
    given = (*map(dense, (*rows, ids.to(torch.int32), weights.to(torch.float32))), *matrices, out)
    launch(plan, tuple(value.data_ptr() for value in given), count, device, pdl)
    return out


def _of_bucket(device: int, line: str, rows: int, within: "Sequence[int] | None") -> Optional[Plan]:
    return store.find(device, line, (*BUCKETS, BUCKETS[-1] + 1)[bucket(rows)], within)


def _built_behind(device: int, line: str, rows: int) -> Optional[Plan]:
    """The plan, if it is there by now; else it is built in the background, like the plan of a compiled graph's part."""
    key = device, line, bucket(rows)
    place = _places.get(key) or _places.setdefault(key, Place(device, Chain.from_text(line), rows, None))
    return place.plan or place.look(patience("later"))


def _check(of: Call) -> None:
    x, ids, weights, w1, w2, act, layout, _ = of
    check_words(act)
    if layout not in ("oi", "io"):
        raise invalid(f"layout is {layout!r}; there are oi and io")
    for name, value in zip(Call._fields, (x, ids, weights, w1, w2)):
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


def _on_gpu(*given: Any) -> torch.Tensor:
    of, y = Call(*given), None
    try:
        _check(of)
        y = launch_experts(of, behind=not of.strict)
    except Error as error:
        if of.strict:
            raise
        warn_once(f"torch computes experts: {error}")
    return _by_torch(of) if y is None else y


def _on_host(*given: Any) -> torch.Tensor:
    of = Call(*given)
    if of.strict:
        _check(of)
    return _by_torch(of)


def _fake(*given: Any) -> torch.Tensor:
    of = Call(*given)
    return of.x.new_empty((of.x.shape[0], of.w2.shape[1 if of.layout == "oi" else 2]))


def _by_torch(of: Call) -> torch.Tensor:
    """Slots sorted by experts, two grouped products, and the sum over a row's slots in f32 of terms that are rounded as plans round them. The host reads no id."""
    x, ids, weights, w1, w2, act, layout, _ = of
    experts, (rows, top) = w1.shape[0], ids.shape
    grouped: Any = getattr(torch.nn.functional, "grouped_mm", None) or getattr(torch, "_grouped_mm")  # noqa: B009  it has no stub
    if layout == "oi":
        w1, w2 = w1.transpose(1, 2), w2.transpose(1, 2)
    flat = ids.reshape(-1)
    of_slot, order = torch.sort(torch.where((flat < 0) | (flat >= experts), experts, flat))
    ends = torch.searchsorted(of_slot, torch.arange(experts, device=x.device, dtype=of_slot.dtype), right=True, out_int32=True)
    gate, up = grouped(x[order // top], w1, offs=ends).float().chunk(2, dim=-1)
    parts = grouped((ACTIVATIONS[act](gate) * up).to(x.dtype), w2, offs=ends).float()
    # Rows after the last end hold whatever was in memory before.
    parts = torch.where((of_slot < experts)[:, None], parts * weights.reshape(-1)[order].float()[:, None], 0.0).to(x.dtype).float()
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=x.device)
    return parts[back].view(rows, top, parts.shape[1]).sum(1).to(x.dtype)


register(
    "experts",
    "(Tensor x, Tensor ids, Tensor weights, Tensor w1, Tensor w2, str act='silu', str layout='oi', bool strict=True) -> Tensor",
    _on_gpu,
    _on_host,
    _fake,
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
    check_words(act)
    result: torch.Tensor = torch.ops.sinter.experts(x, ids, weights, w1, w2, act, layout)
    return result
