"""ATen's scaled dot product attention: which calls are captured, and as which ops.

Composites of the library are written here as their single ops, so that a refused op has a node.
"""

from __future__ import annotations

import math
from typing import Any, Collection, List, NamedTuple, Optional, Sequence, Tuple

from ..._value import Value
from ..._functions import exp
from ..._operators import maximum, where
from .arrays import DTYPES, HALVES, Array, Refused, extent, of
from .converter import RESHAPES, Converter, filled, target_of
from .op_table import row
from .products import operand

_PREFIX = "aten._scaled_dot_product_"
FLASH, EFFICIENT, CUDNN = (f"{_PREFIX}{backend}_attention.default" for backend in ("flash", "efficient", "cudnn"))
#: The CPU's operator, for which a GPU runs one of the others, and the operator of other devices.
_OTHERS = (f"{_PREFIX}flash_attention_for_cpu.default", f"{_PREFIX}fused_attention_overrideable.default")
NAMES = (FLASH, EFFICIENT, CUDNN, *_OTHERS)

#: The most that a kernel takes (src/attention): columns of q and k, columns of v, and terms that are added to scores or hide them.
MOST_HEAD = 128
_MOST_TERMS = 2
#: Bounds of a row's largest score and of its sum of powers. They make a row that sees no key 0, as PyTorch's kernels do, not NaN. Those kernels multiply
#: scores by log2(e), so a row whose scores are all below this bound, which a mask of the least bf16 hides, overflows there and is 0, too.
_LEAST_SCORE = -2.3586e38
_LEAST_SUM = 1e-30


class Call(NamedTuple):
    """The arguments of a node of attention. `bias`: the values that are added to the scores, or the mask of the scores that are kept."""

    q: Any
    k: Any
    v: Any
    bias: Any
    dropout: float
    causal: bool
    scale: Optional[float]


class Term(NamedTuple):
    """One operation on the scores.

    Attributes:
        kind: "add" a value to them; "keep" the scores where a predicate is true; "hide" them there.
        node: the node of that value or predicate.
        dims: extents of the scores with which it broadcasts; None: the scores' own.
    """

    kind: str
    node: Any
    dims: Optional[Sequence[int]] = None


def is_attention(node: Any) -> bool:
    return target_of(node) in NAMES


def call_of(node: Any) -> Call:
    """The arguments of a node for which ``is_attention``."""
    given = {argument.name: argument.default_value for argument in node.target._schema.arguments if argument.has_default_value()}
    given.update(zip((argument.name for argument in node.target._schema.arguments), node.args))
    given.update(node.kwargs)
    bias = given.get("attn_bias", given.get("attn_mask"))
    return Call(given["query"], given["key"], given["value"], bias, given["dropout_p"], given["is_causal"], given["scale"])


def why_not_attention(node: Any) -> Optional[str]:
    """Why a node of attention is left to Inductor, as far as the node shows it; the library may also refuse one for its strides."""
    call = call_of(node)
    q, k, v = (x.meta["val"] for x in call[:3])
    if call.dropout:
        return "attention with dropout"
    if any(user.args[1] != 0 for user in node.users):
        return "attention of which more than its values is read, as gradients need it"
    if DTYPES.get(str(q.dtype)) not in HALVES:
        return f"attention of {str(q.dtype).replace('torch.', '')}"
    if any(len(x.shape) != 4 for x in (q, k, v)):
        return f"attention of rank {len(q.shape)}"
    for name, x in (("rows", q), ("keys", k)):
        if not isinstance(extent(x.shape[2]), int):
            return f"attention whose number of {name} is symbolic"
    for head in (q.shape[3], v.shape[3]):
        if not isinstance(head, int) or head % 8 or not 8 <= head <= MOST_HEAD:
            return f"attention with heads of {head}, which must be a multiple of 8 up to {MOST_HEAD}"
    heads, shared = (extent(x.shape[1]) for x in (q, k))
    if not isinstance(heads, int) or not isinstance(shared, int) or heads % shared or v.shape[1] != shared:
        return f"attention of {heads} heads with {shared} of keys"
    if call.causal and target_of(node) == FLASH and q.shape[2] != k.shape[2]:
        return "causal attention that ends at the last key"
    return None


def scores_of(node: Any) -> Tuple[Any, ...]:
    """Extents of the scores: batch, heads, rows, keys."""
    q, k = (x.meta["val"] for x in call_of(node)[:2])
    return (*q.shape[:3], k.shape[2])


def terms_of(node: Any, inside: Collection[Any]) -> List[Term]:
    """The operations on the scores. Nodes of `inside` that make a term from smaller values are looked through: a mask that was made a bias,
    sums, repeated rows, and the columns that align a bias in memory."""
    bias = call_of(node).bias
    if bias is None:
        return []
    whole = Term("keep" if _is_mask(bias) else "add", bias)
    terms = _split(whole, inside)
    return terms if len(terms) <= _MOST_TERMS else [whole]


def _is_mask(node: Any) -> bool:
    return str(node.meta["val"].dtype) == "torch.bool"


def _split(term: Term, inside: Collection[Any]) -> List[Term]:
    at, name = term.node, target_of(term.node)
    if at not in inside or term.kind != "add":
        return [term]
    if name in ("aten.expand.default", "aten.clone.default"):
        return _split(term._replace(node=at.args[0]), inside)
    if name == "aten.slice.Tensor" and _unpadded(at) is not None and at.args[0] in inside:
        return _split(term._replace(node=_unpadded(at)), inside)
    if name == "aten.where.self":
        for kind, kept, hidden in (("keep", *at.args[1:]), ("hide", *reversed(at.args[1:]))):
            if filled(hidden) == -math.inf:
                rest = [] if filled(kept) == 0 else _split(term._replace(node=kept), inside)
                return [*rest, term._replace(kind=kind, node=at.args[0])]
    if name == "aten.add.Tensor" and not at.kwargs and all(hasattr(x, "meta") and x.meta["val"].is_floating_point() for x in at.args[:2]):
        return [part for x in at.args[:2] for part in _split(term._replace(node=x), inside)]
    spread = _regrouped(at, inside) if term.dims is None else None
    return [term] if spread is None else _split(Term("add", spread, tuple(spread.meta["val"].shape)), inside)


def _unpadded(node: Any) -> Any:
    """The value that a slice gives back of itself padded with zeros after its columns; None for any other node."""
    source = node.args[0]
    if target_of(source) != "aten.constant_pad_nd.default":
        return None
    before, after = source.args[0].meta["val"].shape, node.meta["val"].shape
    begins = len(node.args) < 3 or node.args[2] in (0, None)
    return source.args[0] if begins and list(before) == list(after) and len(source.args[1]) == 2 and source.args[1][0] == 0 else None


def _regrouped(node: Any, inside: Collection[Any]) -> Any:
    """The expanded value whose leading axes a view, or a copy that the view needs, merges; None for any other node."""
    if target_of(node) not in RESHAPES:
        return None
    source = node.args[0]
    if source in inside and target_of(source) == "aten.clone.default":
        source = source.args[0]
    sizes, own = source.meta["val"].shape, node.meta["val"].shape
    numbers = all(isinstance(size, int) for size in (*sizes, *own))
    regroups = numbers and len(own) == 4 < len(sizes) <= 6 and list(sizes[-2:]) == list(own[-2:])
    return source if regroups and source in inside and target_of(source) == "aten.expand.default" else None


def _reads(node: Any, inside: Collection[Any]) -> List[Any]:
    return [*call_of(node)[:3], *(term.node for term in terms_of(node, inside))]


@row(*NAMES, product=True, several=True, first=True, stores=True, reads=_reads)
def _attention(c: Converter, node: Any) -> Tuple[Array]:
    """The values: softmax(scale * q k^T + terms) v, whose probabilities are rounded before they are multiplied."""
    call = call_of(node)
    arrays = [operand(c, x) for x in call[:3]]
    if any(x.folded > 1 for x in arrays):
        raise Refused("its heads are rows of M")
    q, k, v = (x.plain for x in arrays)
    dims = (*q.shape[:3], k.shape[2])
    k, v = _for_heads(k, q.shape[1]), _for_heads(v, q.shape[1])
    z = (q @ k.T) * (call.scale if call.scale is not None else 1 / math.sqrt(q.shape[3]))
    terms = terms_of(node, c.inside)
    for term in terms:
        z = _with_term(c, z, term, dims)
    if call.causal:
        matrix = dims[2:]
        seen = c.builder.iota("s32", matrix, 0) >= c.builder.iota("s32", matrix, 1)
        z = where(seen.broadcast_to(dims), z, -math.inf)
    p = _softmax_or_zero(z) if terms else _softmax(z)
    return (of((p.cast(q.dtype) @ v).cast(q.dtype), arrays[0].folded),)


def _for_heads(x: Value, heads: int) -> Value:
    """Keys or values for all heads; groups of heads share them."""
    batch, shared, *matrix = x.shape
    if shared == heads:
        return x
    group = heads // shared
    return x.reshape(batch, shared, 1, *matrix).broadcast_to((batch, shared, group, *matrix)).reshape(batch, heads, *matrix)


def _with_term(c: Converter, z: Value, term: Term, dims: Tuple[Any, ...]) -> Value:
    x = c.array(term.node)
    own = tuple(dims if term.dims is None else term.dims)
    if x.folded > 1:
        raise Refused("what is added to its scores has other rows of M")
    z = z if z.shape == own else z.reshape(*own)
    value = x.plain.broadcast_to(own)
    if term.kind == "add":
        z = z + value
    else:
        z = where(value, z, -math.inf) if term.kind == "keep" else where(value, -math.inf, z)
    return z if own == tuple(dims) else z.reshape(*dims)


def _softmax(z: Value) -> Value:
    powers = exp(z - z.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _softmax_or_zero(z: Value) -> Value:
    powers = exp(z - maximum(z.max(-1, keepdims=True), _LEAST_SCORE))
    return powers / maximum(powers.sum(-1, keepdims=True), _LEAST_SUM)
