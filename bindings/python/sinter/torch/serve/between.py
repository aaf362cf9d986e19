"""The layers between two attentions of a decoder, as one plan."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from ..._argument import flag, instance
from ..._error import invalid
from ..._group import Group
from ..._plan import Plan
from ..._prepare import checked_measure
from ..runtime.groups import split
from ..runtime.register import HALVES, need_tensor
from ..runtime.registered_chain import register_chain
from ..runtime.store import sizes_of, store
from .between_chain import QUANTIZERS, between_chain, check_quantizer, check_weights, in_order, scales_by_name

#: The matrices' scales: of o, of gate above up or of the two, of down and of next. Then, if they are given, scales of the rows that these multiply.
Scales = Sequence["torch.Tensor | Tuple[torch.Tensor, torch.Tensor]"]


class BetweenAttentions:
    """Computes from attention's result to the next layer's queries, keys and values, or to the logits:

        stream = stream + attended o^T
        stream = stream + (act(x gate^T) * (x up^T)) down^T     with x = rmsnorm(stream) * norm
        out    = rmsnorm(stream) * next_norm next^T

    Layers of equal shapes share their plans. Call ``prepare`` before a CUDA graph is captured.

    With a group the layer is split over its GPUs, with one process for each. A rank has some of the heads, which are columns of o and rows of
    next, and some of the MLP's inner columns. Each rank has all of stream and of both norms, with equal values. The products of o and down are
    rounded, summed over the ranks inside the plan, and rounded again. Ranks prepare and call their layers in one order, with equal numbers of rows.

    Matrices may be e4m3 with scales: each product then takes rows that the plan quantises.

    Args:
        o: [hidden, q], bf16 or f16 like all others, contiguous, on a GPU, as nn.Linear stores it. If o is e4m3, all matrices are.
        norm: [hidden], the weight of the norm before the MLP. None: it is multiplied into gate_up, whose product then computes the norm
            itself at few rows; the normalised rows are not rounded.
        gate_up: [2 inner, hidden], gate above up; or the two [inner, hidden].
        down: [hidden, inner].
        next_norm: [hidden], the weight of the norm after the MLP: the next layer's first, or the model's last. None: as for norm.
        next: [columns, hidden]: the next layer's merged queries, keys and values, or the matrix of logits.
        eps: the epsilon of both norms.
        act: "silu", "gelu_tanh", "gelu_erf" or "relu".
        pdl: the first kernel may start while the kernel ahead on the stream ends. After a weight was changed in place,
            launch once on an idle stream.
        group: the group over which the layer is split, of GPUs of one host. Close it after the last launch.
        scales: f32, the scales of the matrices o, gate_up, down and next, if these are e4m3. Both norms must then be given. For "static" four more:
            the scales of the rows that these matrices multiply.
        quantizer: which elements share a scale. "row": a row, and an output channel of a matrix, whose scales are [rows, 1]. "group": 128
            elements of a row, and 128 x 128 of a matrix, whose scales are [rows / 128, columns / 128], rounded up. "group_ue8m0": like
            "group", but scales of rows are powers of two. "static": all rows of a product have a given scale, and a matrix has one, all [].

    Raises:
        Error: INVALID_ARGUMENT naming the weight or the scales that do not fit.
    """

    def __init__(
        self,
        o: torch.Tensor,
        norm: Optional[torch.Tensor],
        gate_up: "torch.Tensor | Tuple[torch.Tensor, torch.Tensor]",
        down: torch.Tensor,
        next_norm: Optional[torch.Tensor],
        next: torch.Tensor,
        *,
        eps: float = 1e-6,
        act: str = "silu",
        pdl: bool = False,
        group: Optional[Group] = None,
        scales: Optional[Scales] = None,
        quantizer: str = "row",
    ) -> None:
        gate, up = _halves(gate_up)
        given: Dict[str, Any] = dict(o=o, norm=norm, gate=gate, up=up, down=down, next_norm=next_norm, next=next)
        weights: Dict[str, torch.Tensor] = {
            name: weight for name, weight in given.items() if weight is not None or not name.endswith("norm")
        }
        quantizer = "" if scales is None else quantizer
        check_quantizer(quantizer, QUANTIZERS)
        of = {} if scales is None else scales_by_name(_sequence(scales), quantizer)
        check_weights(weights, of, quantizer)
        self._weights = in_order(weights, of)
        #: attended [M, q], stream [M, hidden], the weights, each matrix followed by its scales, given scales of rows -> stream, out.
        norms = (norm is not None, next_norm is not None)
        self._split = None if group is None else split(instance(group, Group, "group"))
        ranks = 1 if group is None else group.size
        dtype = HALVES[(o if norm is None or not quantizer else norm).dtype]
        self.chain = between_chain(len(o), len(gate), len(next), o.shape[1], norms, eps, act, dtype, ranks, quantizer)
        self._key = register_chain(self.chain)
        self.pdl = flag(pdl, "pdl")

    def __call__(self, attended: torch.Tensor, stream: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        """attended [rows, q], stream [rows, hidden] -> (stream [rows, hidden], out [rows, columns]), new memory.

        Raises:
            Error: STREAM_CAPTURING for a number of rows that was not prepared; any error of a prepare; with a group
                FAILED_PRECONDITION if ranks differ, and the error that ended the group.
        """
        need_tensor(attended, "attended")
        need_tensor(stream, "stream")
        group = "" if self._split is None else self._split.name
        result = torch.ops.sinter.run([attended, stream, *self._weights], self._key, self.pdl, group)
        return result[0], result[1]

    def prepare(self, sizes: Sequence[int], *, measure: int = 0) -> Dict[int, str]:
        """Prepares for each number of rows in `sizes`, in parallel. Returns the plans' digests, which ranks can compare.

        With a group all ranks call it at once, with the same sizes, and their plans are compared.

        Args:
            measure: candidates that are measured for each plan, see ``Context.prepare``; not with a group.

        Raises:
            Error: INVALID_ARGUMENT for invalid sizes, or if weights are not on a GPU; any error of a prepare, on every rank; with a
                group FAILED_PRECONDITION naming a rank that has another plan.
        """
        wanted, measure = sizes_of(sizes), checked_measure(measure)
        device = self._weights[0].device
        if device.type != "cuda":
            raise invalid(f"the weights are on {device}, not on a GPU")

        def find() -> List[Plan]:
            return store.prepare_chain(device.index, self.chain, self._key, wanted, measure)

        plans = find() if self._split is None else self._split.meet(find, self._bind)
        return {size: plan.digest for size, plan in zip(wanted, plans)}

    def _bind(self, plan: Plan) -> object:
        assert self._split is not None
        o, norm = self._weights[0], next(weight for weight in self._weights if weight.dtype in HALVES)
        return plan.bind(norm.new_empty((1, o.shape[1])), norm.new_empty((1, len(o))), *self._weights, group=self._split.group)


def _sequence(scales: Scales) -> Scales:
    if not isinstance(scales, (tuple, list)):
        raise TypeError(f"scales are a {type(scales).__name__}, not a sequence of tensors: the scales of o, gate_up, down and next")
    return scales


def _halves(gate_up: Any) -> Tuple[torch.Tensor, torch.Tensor]:
    """Gate and up: the two halves of one matrix, or the two as they are."""
    if isinstance(gate_up, torch.Tensor) and gate_up.dim() == 2 and len(gate_up) % 2 == 0:
        gate, up = gate_up.chunk(2)
        return gate, up
    if isinstance(gate_up, torch.Tensor):
        raise invalid(f"gate_up has shape {tuple(gate_up.shape)}: gate above up has two axes and an even number of rows")
    if isinstance(gate_up, (tuple, list)) and len(gate_up) == 2:
        return gate_up[0], gate_up[1]
    raise TypeError(f"gate_up is a {type(gate_up).__name__}, neither a tensor nor two")
