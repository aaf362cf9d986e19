"""Functions that server plugins share: whether a server's gated MLP or experts can be taken, and which numbers of rows to prepare.

A server's MLP has ``gate_up_proj``, one matrix [2 n, k] with gate above up, and ``down_proj`` [l, n], each with a
``quant_method`` that says how it multiplies. Its experts have ``w13`` [experts, 2 n, k] and ``w2`` [experts, l, n].
"""

from __future__ import annotations

import bisect
import logging
import os
import re
from typing import Any, Callable, List, Optional, Sequence, Set, Tuple

import torch

from .._error import Error, Status, invalid
from .._plan import Plan
from .runtime.buckets import BUCKETS, EXPERTS_ROWS as EXPERTS_ROWS, PREFILL_SIZES as PREFILL_SIZES, SIZES as SIZES, bucket
from .runtime.experts import MOST_TOP, Call, launch_experts, reason_against_experts
from .runtime.groups import join as join, split_of
from .runtime.gated_mlp import chain_line, reason_against_pair
from .runtime.register import HALVES
from .runtime.store import chains, configure, logger, store
from .runtime.warn import warn_once
from .serve import packed_matrix as packed_matrix
from .serve.between_chain import BLOCK as BLOCK, QUANTIZERS as QUANTIZERS, extents_of, scale_shape as scale_shape
from .serve.between_op import ahead, between_key
from .serve.choose_operator import choose as choose
from .serve.configs import asked_of as asked_of, decoder_of as decoder_of, has_experts as has_experts, prepare_config as prepare_config
from .serve.draw_tokens import Requests as Requests, draw_tokens as draw_tokens
from .serve.expand_operators import add_norm as add_norm, expand as expand
from .serve.fold_norms import Pair as Pair, fold as fold, folds as folds
from .serve.scaled_experts import Scales as Scales, launch_scaled_experts, reason_against_scaled_experts, takes_rows

#: Environment variable: 0 keeps all installed plugins from changing a server.
VARIABLE = "SINTER_PLUGINS"

#: Environment variable: the most rows for which plans are made.
PREFILL_VARIABLE = "SINTER_PREFILL_ROWS"


def reason_against(module: Any, linears: Tuple[type, type], plain: type, split: bool = False) -> str:
    """Why the server's own path computes `module`; "" if Sinter can.

    Args:
        module: a module with ``gate_up_proj`` and ``down_proj``.
        linears: the exact types of the two; a LoRA layer wraps them in another.
        plain: the exact type of a ``quant_method`` that does not quantise.
        split: whether it may be one rank's part of a layer, so that its result is a part of a sum over ranks.
    """
    for name, kind in zip(("gate_up_proj", "down_proj"), linears):
        reason = reason_against_linear(name, getattr(module, name, None), kind, plain, split)
        if reason:
            return reason
    return reason_against_pair("the weights", module.gate_up_proj.weight, module.down_proj.weight)


def reason_against_linear(name: str, linear: Any, kind: type, plain: Optional[type], split: bool = False) -> str:
    """The same for one linear layer, called `name`, which must have the exact type `kind`. `plain` None: the caller knows how it is
    quantised, and checks its weight."""
    found: type = type(linear)
    if found is not kind:
        return f"{name} is a {found.__name__}, not a plain {kind.__name__}"
    method: object = getattr(linear, "quant_method", None)
    if plain is not None and type(method) is not plain:
        return f"{name} is quantised by {type(method).__name__}"
    if getattr(linear, "bias", None) is not None:
        return f"{name} has a bias"
    if is_split(linear) and not split:
        return "the layer is split over several GPUs, and its sum follows"
    if not getattr(linear, "input_is_parallel", True) or getattr(linear, "gather_output", False):
        return f"{name} divides what it takes, or gathers what it gives, over GPUs"
    if plain is not None and (linear.weight.dtype not in HALVES or not linear.weight.is_contiguous()):
        return f"the weight of {name} is {linear.weight.dtype} with strides {linear.weight.stride()}"
    return ""


def is_split(linear: Any) -> bool:
    """Whether a row-parallel layer has some of its columns, so that the sum over ranks follows."""
    return bool(getattr(linear, "input_size_per_partition", linear.input_size) != linear.input_size)


def experts(
    x: torch.Tensor,
    ids: torch.Tensor,
    weights: torch.Tensor,
    w13: torch.Tensor,
    w2: torch.Tensor,
    out: Optional[torch.Tensor] = None,
    scales: Optional[Scales] = None,
) -> Optional[torch.Tensor]:
    """Computes a server's experts with SiLU by a plan. Returns None, with nothing enqueued, if the server's kernels must compute.

    Args:
        x: [rows, k].
        ids: [rows, top], of integers; an id outside of the experts adds nothing.
        weights: [rows, top].
        w13: [experts, 2 n, k], gate above up.
        w2: [experts, l, n].
        out: [rows, l], memory for the result; else new memory is allocated, unless rows are codes.
        scales: the scales of e4m3 matrices, and of e4m3 rows.
    """
    if not EXPERTS_ROWS[0] <= x.shape[0] <= EXPERTS_ROWS[-1] or BUCKETS[bucket(x.shape[0])] not in EXPERTS_ROWS:
        return None
    if ids.dim() != 2 or weights.shape != ids.shape or not 1 <= ids.shape[1] <= MOST_TOP:
        return None
    if scales is None:
        if reason_against_experts(w13, w2) or x.shape[1:] != w13.shape[2:] or x.dtype != w13.dtype:
            return None
    elif reason_against_scaled_experts(w13, w2, scales) or not takes_rows(x, scales.x, w13.shape[2]):
        return None
    dtype = x.dtype if scales is None or scales.x is None or out is None else out.dtype
    if dtype not in HALVES or out is not None and (out.shape != (x.shape[0], w2.shape[1]) or out.dtype != dtype or not out.is_contiguous()):
        return None
    try:
        if scales is None:
            return launch_experts(Call(x, ids, weights, w13, w2), out=out, within=EXPERTS_ROWS, pdl=True)
        y = x.new_empty((x.shape[0], w2.shape[1])) if out is None else out
        return launch_scaled_experts(x, ids, weights, w13, w2, scales, y, EXPERTS_ROWS)
    except Error as error:
        warn_once(f"the server computes experts: {error}")
        return None


def takes(rows: int) -> bool:
    """Whether operators take so many rows: by a plan, or by the server's kernels while the plan is built. The server itself computes
    more rows, outside of any operator."""
    return rows <= largest()


def largest() -> int:
    """The most rows that operators take."""
    return max((*store.settings.sizes, *store.settings.later), default=0)


def settle() -> None:
    """Gives up numbers of rows without a plan. Call it after a model's layers are prepared and before graphs are compiled for them."""
    store.settle()


def most_rows() -> int:
    """The value of SINTER_PREFILL_ROWS, else the largest of ``SIZES``: plans for prefill are only made on request.

    Raises:
        Error: INVALID_ARGUMENT for another value than a number of rows.
    """
    text = os.environ.get(PREFILL_VARIABLE, "")
    if not text:
        return SIZES[-1]
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text) <= PREFILL_SIZES[-1]):
        raise invalid(
            f"{PREFILL_VARIABLE} is {text[:32]!r}: the most rows that the servers' plugins make plans for are 0 to "
            f"{PREFILL_SIZES[-1]}, {SIZES[-1]} or less leave prefill to the server, as without it; {PREFILL_SIZES[-1]} takes all of it"
        )
    return int(text)


def folding_pays(weights: Sequence[torch.Tensor], eps: float) -> bool:
    """Whether a plan of such a layer computes norms in its products once their weights are folded.

    Prepares the plan for the fewest rows, if weights are on a GPU.

    Args:
        weights: the weights of ``torch.ops.sinter.between_attentions``.
    """
    o = weights[0]
    if not o.is_cuda or not store.settings.sizes:
        return False
    key = _key(weights, eps, True)
    try:
        plan = store.find_chain(o.device.index, chains[key], key, store.settings.sizes[0])
    except Error as error:
        logger.warning("sinter: norms stay apart from the matrices: %s", error)
        return False
    return any("norm1" in kernel.get("sequence", {}) for kernel in plan.to_json()["kernels"])


def planned(weights: Sequence[torch.Tensor], eps: float, folded: bool, group: str = "", quantizer: str = "") -> bool:
    """Whether such a layer has plans, or has none because its weights are not on a GPU. Prepares plans for the configured sizes.

    Args:
        weights: the weights of ``torch.ops.sinter.between_attentions``.
        group: the name of a joined group over which the layer is split: all its ranks call this at once, and get the same answer.
        quantizer: the operator's; not with a group.
    """
    o, sizes = weights[0], store.settings.sizes
    if not o.is_cuda or not sizes:
        return True
    if not group:
        key = _key(weights, eps, folded, quantizer=quantizer)
        return store.find(o.device.index, key, sizes[0]) is not None and (quantizer not in packed_matrix.PACKED or _read_codes(weights, key))
    over = split_of(group)
    key = _key(weights, eps, folded, over.group.size)

    def find() -> List[Plan]:
        found = [store.find(o.device.index, key, size, ahead()) for size in sizes]
        if None in found:
            raise Error(Status.NOT_FOUND, f"no plan for {sizes[found.index(None)]} rows")
        return [plan for plan in found if plan is not None]

    def bind(plan: Plan) -> object:
        _, norm, gate_up, down, next_norm, next = weights
        norms = ([norm], [next_norm]) if not folded else ([], [])
        rows = o.new_empty((1, o.shape[1])), o.new_empty((1, len(o)))
        return plan.bind(*rows, o, *norms[0], *gate_up.tensor_split(2), down, *norms[1], next, group=over.group)

    try:
        over.meet(find, bind)
    except Error as error:
        logger.warning("sinter: layers that are split over %d GPUs are the server's: %s", over.group.size, error)
        return False
    return True


def _read_codes(weights: Sequence[torch.Tensor], key: str) -> bool:
    """Whether the plans of a layer of packed matrices read their codes. One that first writes a matrix in 16 bits, into its workspace, is
    slower than any server."""
    o, _, gate_up, down, _, next = weights
    least = min(2 * n * k for n, k in map(packed_matrix.extents, (o, gate_up, down, next)))  # gate_up: of gate or up half of that
    for size in store.settings.sizes:
        plan = store.find(o.device.index, key, size)
        if plan is None or plan.workspace_size >= least:
            why = "there is none" if plan is None else f"its workspace has {plan.workspace_size} bytes, so it writes a matrix in 16 bits"
            logger.warning("sinter: no plan for %d rows of layers of four bits: %s", size, why)
            return False
    return True


def see_mlp(gate_up: torch.Tensor, down: torch.Tensor) -> None:
    """Prepares the plans of a gated MLP before its operator is called: before a capture, and before memory is measured."""
    if gate_up.is_cuda and store.settings.sizes:
        line = chain_line(down.shape[1], gate_up.shape[1], down.shape[0], "silu", down.dtype)
        store.find(gate_up.device.index, line, store.settings.sizes[0])


def _key(weights: Sequence[torch.Tensor], eps: float, folded: bool, ranks: int = 1, quantizer: str = "") -> str:
    o, norm, gate_up, _, _, next = weights
    return between_key(extents_of(o, gate_up, next, quantizer), eps, norm.dtype, folded, ranks, quantizer)


def version_of(text: str) -> Tuple[int, int]:
    """Major and minor of a version such as "0.33.0+cu130"; (0, 0) for any other text."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def sizes_for(captured: Sequence[int], limit: int = PREFILL_SIZES[-1]) -> Tuple[int, ...]:
    """The sizes that serve the numbers of rows that a server captures; ``SIZES`` if it captures none. None is above `limit`. A server captures
    its decoding steps, so if SINTER_PREFILL_ROWS is not set, numbers above ``SIZES`` count too."""
    if limit < PREFILL_SIZES[-1]:
        return tuple(size for size in sizes_for([rows for rows in captured if rows <= limit]) if size <= limit)
    most = max(most_rows(), SIZES[-1]) if os.environ.get(PREFILL_VARIABLE, "") else PREFILL_SIZES[-1]
    return tuple(sorted({min(top for top in (*SIZES, *PREFILL_SIZES) if top >= rows) for rows in captured if rows <= most})) or SIZES


def set_up(
    silu_and_mul: "Callable[[torch.Tensor], torch.Tensor] | None",
    sizes: Sequence[int] = SIZES,
    *,
    rows: int = PREFILL_SIZES[-1],
    add_norm: "Callable[..., Tuple[torch.Tensor, torch.Tensor]] | None" = None,
    linear: "Callable[[torch.Tensor, torch.Tensor], Optional[torch.Tensor]] | None" = None,
    log: str = "sinter",
) -> None:
    """Configures the operators to prepare `sizes` when they first see a layer. If SINTER_PREFILL_ROWS asks for it, plans for more rows are
    then built in the background. Until these are there, and for still more rows, the server's kernels compute.

    Args:
        silu_and_mul: the server's function on a [rows, 2 n] tensor.
        rows: the most that the server computes at once.
        add_norm: (x, residual, weight, eps) -> (the norm of their sum, their sum), the server's; x and residual may be overwritten.
        linear: (x, a matrix of codes) -> their product, the server's; None for a matrix that the server does not know.
        log: the logger that reports plans made in the background.

    Raises:
        Error: INVALID_ARGUMENT for an invalid SINTER_PREFILL_ROWS.
    """
    most = most_rows()
    configure(sizes=sizes, on_miss="torch", silu_and_mul=silu_and_mul)
    later: Tuple[int, ...] = ()
    if rows > max(sizes) and most > SIZES[-1]:
        above = [size for size in (*SIZES, *PREFILL_SIZES) if size > max(sizes)]
        later = tuple(size for size in above[: bisect.bisect_left(above, rows) + 1] if size <= most)
    store.settings = store.settings._replace(add_norm=add_norm, linear=linear, later=later, log=log)


def graph_pass(sizes: Sequence[int], applies: Callable[[], bool]) -> Any:
    """A pass for ``post_grad_custom_pre_pass`` of Inductor's configuration, for a server that compiles its model itself; see ``ServerPass``."""
    from .backend.server_pass import ServerPass  # needs torch's compiler, whose import takes seconds

    return ServerPass(sizes, applies)


def rewrite(graph: Any, f: Callable[[], Any]) -> None:
    """Runs `f`, which changes a graph of torch.fx. If it raises, the graph is as before, and a warning says why."""
    from .graph.put_back import rewritten  # needs torch's compiler

    error = rewritten(graph, f)
    if error is not None:
        warn_once(f"a graph of the server keeps its operators: {type(error).__name__}: {error}")


def switched_off() -> str:
    """Why no plugin does anything; "" if plugins are not switched off."""
    return f"{VARIABLE} is 0" if os.environ.get(VARIABLE, "") == "0" else ""


def count(layers: int) -> None:
    """Adds to the layers that ``sinter.torch.counts`` reports."""
    store.count_layers(layers)


def take(log: str, what: str, layers: int, within: Optional[Sequence[int]] = None) -> None:
    """Logs once for a model that Sinter computes `layers` layers of it, and counts them.

    Args:
        log: the name of a logger whose lines the server shows.
        what: the model and the layers that are taken.
        within: the configured numbers of rows for which plans of it are made; None: all.
    """
    count(layers)
    sizes, later = ([size for size in each if within is None or size in within] for each in (store.settings.sizes, store.settings.later))
    more = f"; up to {later[-1]} as plans get ready in the background" if later else ""
    logging.getLogger(log).info("sinter: active in %s, for up to %d rows%s", what, max(sizes, default=0), more)


def take_once(said: Set[Any], shape: Any, log: str, what: str, within: Optional[Sequence[int]] = None) -> None:
    """As ``take`` for one layer; logs only the first layer of a shape. `said`: the shapes that were logged."""
    if shape in said:
        count(1)
    else:
        said.add(shape)
        take(log, what, 1, within)


def report(log: str, what: str) -> None:
    """Logs at level info something that a plugin does. `log`: the name of a logger whose lines the server shows."""
    logging.getLogger(log).info("sinter: %s", what)


def stay_away(server: str, reason: str) -> None:
    """Logs why a plugin changes nothing."""
    logger.warning("sinter: %s keeps its own path: %s", server, reason)
