"""Operators as functions on values of a chain. Functions of one operand are in ``_functions``. Results of composites are f32 and not rounded,
unless their docstring says otherwise: add the cast that rounds."""

from __future__ import annotations

import ctypes
import math
from typing import Dict, Optional, Sequence, Tuple, Union

from . import _abi
from ._argument import flag, integer, named, number, sequence
from ._builder import Builder, numbers_of
from ._error import invalid
from ._library import call
from ._value import Number, Operand, Value, builder_of

_FILTER: Dict[str, int] = {name.upper(): number for name, number in _abi.FILTER.items()}


def gelu(x: Value, form: str = "tanh") -> Value:
    """GELU in the form "tanh" or "erf"."""
    return builder_of(x)._activate(f"gelu_{form}", x)


def clamp(x: Value, min: Optional[Number] = None, max: Optional[Number] = None) -> Value:
    """min(max(x, min), max) in x's dtype, to which the bounds are rounded; NaN stays NaN."""
    least = -math.inf if min is None else number(min, "min")
    most = math.inf if max is None else number(max, "max")
    b = builder_of(x)
    return b._add("clamp", b._own(x), least, most)


def maximum(a: Operand, b: Operand) -> Value:
    """The larger, element by element; a NaN operand gives NaN."""
    return _either(a, b)._binary("max", a, b)


def minimum(a: Operand, b: Operand) -> Value:
    """The smaller, element by element; a NaN operand gives NaN."""
    return _either(a, b)._binary("min", a, b)


def equal(a: Operand, b: Operand) -> Value:
    """Whether elements are equal: pred. (``==`` of two values raises, because Python expects a bool from it.)"""
    return _either(a, b)._compare("eq", a, b)


def not_equal(a: Operand, b: Operand) -> Value:
    """Whether elements differ: pred."""
    return _either(a, b)._compare("ne", a, b)


def where(condition: Value, a: Operand, b: Operand) -> Value:
    """condition ? a : b, element by element; `condition` is pred."""
    return builder_of(condition)._select(condition, a, b)


def concat(values: Sequence[Value], axis: int = -1) -> Value:
    """Concatenates 1 to 64 values of one dtype along an axis of constant extent."""
    operands = sequence(values, "values")
    if not operands:
        raise TypeError("concat takes 1 to 64 values, not 0")
    return builder_of(operands[0])._concat(operands, axis)


def softmax(x: Value, axis: int = -1, *, scale: float = 1.0, mask: Optional[Value] = None) -> Value:
    """softmax(scale * x + mask) along `axis`: f32; the mask, of numbers, is broadcast to x."""
    b = builder_of(x)
    options = _abi.SoftmaxOptions(scale=_nonzero(scale, "scale", "not be 0 in f32"), mask=b._optional(mask))
    at = integer(axis, "axis", -(2**31), 2**31 - 1)
    return b._add("softmax", b._own(x), at, ctypes.byref(options))


def attention(q: Value, k: Value, v: Value, *, scale: Optional[float] = None, bias: Optional[Value] = None,
              mask: Optional[Value] = None, causal: bool = False) -> Value:
    """softmax(scale * q k^T + bias) v of q [.., rows, d], k [.., keys, d] and v [.., keys, e]: f32; scale is 1 / sqrt(d) unless
    given; the mask, of bool, is false for keys that a row does not see; causal: row i sees keys 0 to i."""
    b = builder_of(q)
    options = _abi.AttentionOptions(flags=_abi.ATTENTION_CAUSAL if flag(causal, "causal") else 0,
                                    scale=0.0 if scale is None else _nonzero(scale, "scale", "not be 0 in f32"),
                                    bias=b._optional(bias), mask=b._optional(mask))
    return b._add("attention", b._own(q), b._own(k), b._own(v), ctypes.byref(options))


def next_token(
    logits: Value,
    seed: Value,
    offset: Value,
    *,
    count: int = 0,
    temperature: Optional[Value] = None,
    k: Optional[Value] = None,
    top_p: Optional[Value] = None,
    min_p: Optional[Value] = None,
    log_probability: bool = False,
) -> Tuple[Value, Optional[Value]]:
    """A token of each row of logits [.., v], s32 [..], and with `log_probability` the logarithm of its softmax(logits), f32.

    It is drawn from softmax(logits / temperature) over the `k` largest of the `count` (1 to 64; 0: the whole row) largest logits, of these the fewest
    whose probabilities reach `top_p`, of these the ones at least `min_p` times as probable as the first. The four have rank 0 or the dims [..]. A row without a
    temperature above 0 gives its largest logit, a row with NaN -1. `seed` and `offset` are as for ``random``.
    """
    b = builder_of(logits)
    options = _abi.NextTokenOptions(
        count=integer(count, "count", 0, 64),
        temperature=b._optional(temperature),
        k=b._optional(k),
        top_p=b._optional(top_p),
        min_p=b._optional(min_p),
    )
    operands = (b._own(logits), b._own(seed), b._own(offset), ctypes.byref(options))
    if flag(log_probability, "log_probability"):
        return b._add_pair("next_token", *operands)
    token = ctypes.c_int32()
    call("sinter_chain_add_next_token", b._get(), *operands, ctypes.byref(token), None)
    return b._value(token.value), None


def layernorm(x: Value, gamma: Optional[Value] = None, beta: Optional[Value] = None, *, eps: float = 1e-5) -> Value:
    """(x - mean) * rsqrt(variance + eps) * gamma + beta over the last axis: f32; gamma and beta are [last axis].

    If a product and other operations read the result, cast it for the product: ``sinter.layernorm(x).cast("bf16") @ w.T``.
    """
    return _norm("layernorm", x, gamma, beta, eps)


def rmsnorm(x: Value, gamma: Optional[Value] = None, *, eps: float = 1e-6) -> Value:
    """x * rsqrt(mean(x^2) + eps) * gamma over the last axis: f32.

    If a product and other operations read the result, cast it for the product: ``sinter.rmsnorm(x).cast("bf16") @ w.T``.
    """
    return _norm("rmsnorm", x, gamma, None, eps)


def lstm_cell(gates: Value, c: Value) -> Tuple[Value, Value]:
    """gates [.., 4h] = i f j o, c [.., h] -> (h', c'): c' = s(f) c + s(i) tanh(j), h' = s(o) tanh(c')."""
    b = builder_of(gates)
    return b._add_pair("lstm_cell", b._own(gates), b._own(c))


_Numbers = Union[int, Sequence[int]]


def _moves(stride: _Numbers, padding: _Numbers, dilation: _Numbers) -> Dict[str, int]:
    """How a filter or a window moves over an image: fields of the ABI's options."""
    strides, dilations = numbers_of(stride, "stride", 2, 1), numbers_of(dilation, "dilation", 2, 1)
    pads = numbers_of(padding, "padding", 4, 0)
    return {
        "stride_height": strides[0],
        "stride_width": strides[1],
        "dilation_height": dilations[0],
        "dilation_width": dilations[1],
        "pad_top": pads[0],
        "pad_bottom": pads[1],
        "pad_left": pads[2],
        "pad_right": pads[3],
    }


def conv2d(
    x: Value,
    w: Value,
    *,
    stride: Union[int, Sequence[int]] = 1,
    padding: Union[int, Sequence[int]] = 0,
    dilation: Union[int, Sequence[int]] = 1,
    filter: str = "OHWI",
    groups: int = 1,
) -> Value:
    """x [batch, height, width, in] with w [out, height, width, in], or [height, width, in, out] ("HWIO").

    ``stride`` and ``dilation``, 1 to 1024: (height, width) or one for both. ``padding``, 0 to 1024: (top, bottom, left,
    right), (height, width) or one for all. ``groups``: groups of channels; w has the channels of one group, in / groups.
    """
    b = builder_of(x)
    builder_of(w)
    moves = _moves(stride, padding, dilation)
    options = _abi.Conv2dOptions(
        filter=named(_FILTER, filter, "filter"),
        groups=integer(groups, "groups", 1, (1 << 31) - 1),
        **moves,
    )
    return b._add("conv2d", b._own(x), b._own(w), ctypes.byref(options))


def _window_options(window: _Numbers, stride: _Numbers, padding: _Numbers, dilation: _Numbers) -> _abi.WindowOptions:
    taps = numbers_of(window, "window", 2, 1)
    return _abi.WindowOptions(
        height=taps[0],
        width=taps[1],
        **_moves(stride, padding, dilation),
    )


def window(
    x: Value, fill: Value, window: _Numbers, *, stride: _Numbers = 1, padding: _Numbers = 0, dilation: _Numbers = 1
) -> Value:
    """The pixels that a window meets as it moves over x [batch, height, width, channels], ``fill`` outside of it.

    ``window``: (height, width) or one for both; the others as for ``conv2d``. [batch, p, q, *window, channels].
    """
    b = builder_of(x)
    return b._add(
        "window", b._own(x), b._own(fill), ctypes.byref(_window_options(window, stride, padding, dilation))
    )


def max_pool2d(
    x: Value, window: _Numbers, *, stride: _Numbers = 1, padding: _Numbers = 0, dilation: _Numbers = 1
) -> Value:
    """The largest pixel of each window of x [batch, height, width, channels]; pads are -infinity."""
    b = builder_of(x)
    return b._add("max_pool2d", b._own(x), ctypes.byref(_window_options(window, stride, padding, dilation)))


def avg_pool2d(
    x: Value, window: _Numbers, *, stride: _Numbers = 1, padding: _Numbers = 0, count_include_pad: bool = True
) -> Value:
    """The mean of each window of x [batch, height, width, channels]; pads are zeros, counted or not."""
    b = builder_of(x)
    options = _window_options(window, stride, padding, 1)
    options.flags = 0 if count_include_pad else _abi.WINDOW_EXCLUDE_PADS
    return b._add("avg_pool2d", b._own(x), ctypes.byref(options))


def linear(
    x: Value, w: Value, bias: Optional[Value] = None, *, activation: str = "identity", layout: str = "oi"
) -> Value:
    """activation(x W + bias): x [.., in]; w is [out, in] ("oi", as nn.Linear stores it) or [in, out] ("io")."""
    b = builder_of(x)
    options = _abi.LinearOptions(**shared_fields(b, activation, layout, bias=bias))
    return b._add("linear", b._own(x), b._own(w), ctypes.byref(options))


def gemm_chain(
    a: Value,
    w1: Value,
    w2: Value,
    *,
    bias1: Optional[Value] = None,
    bias2: Optional[Value] = None,
    activation: str = "identity",
    layout: str = "oi",
) -> Value:
    """activation(a w1 + bias1) w2 + bias2, cast to a's dtype. a [m, k]; w1 [n, k], w2 [l, n] ("oi")."""
    b = builder_of(a)
    options = _abi.GemmChainOptions(**shared_fields(b, activation, layout, bias1=bias1, bias2=bias2))
    return b._add("gemm_chain", *map(b._own, (a, w1, w2)), ctypes.byref(options))


def gated_ffn(
    a: Value,
    gate: Value,
    up: Value,
    down: Value,
    *,
    bias_gate: Optional[Value] = None,
    bias_up: Optional[Value] = None,
    bias2: Optional[Value] = None,
    activation: str = "silu",
    layout: str = "oi",
) -> Value:
    """(activation(a w_gate + bias_gate) * (a w_up + bias_up)) w_down + bias2, cast to a's dtype.

    a [m, k]; gate and up [n, k], down [l, n] ("oi").
    """
    b = builder_of(a)
    options = _abi.GatedFfnOptions(**shared_fields(b, activation, layout, bias_gate=bias_gate, bias_up=bias_up, bias2=bias2))
    return b._add("gated_ffn", *map(b._own, (a, gate, up, down)), ctypes.byref(options))


def grouped_matmul(a: Value, w: Value, ids: Value, *, layout: str = "oi") -> Value:
    """w[ids[m, t]] a[m], or a[m, t] of an a of three axes: f32 [m, t, n].

    w [experts, n, k] ("oi") or [experts, k, n] ("io"); ids s32 [m, t]. An id that names no expert gives zeros.
    """
    return _grouped("grouped_matmul", a, w, ids, layout)


def grouped_matmul_ends(a: Value, w: Value, ends: Value, *, layout: str = "oi") -> Value:
    """w[e] a[m] with the first e of m < ends[e]: f32 [m, n]; rows past all ends are zeros.

    a [m, k], rows in the order of their matrices; w as for ``grouped_matmul``; ends s32 [experts].
    """
    return _grouped("grouped_matmul_ends", a, w, ends, layout)


def _grouped(kind: str, a: Value, w: Value, by: Value, layout: str) -> Value:
    b = builder_of(a)
    transposed = named(_abi.LAYOUT, layout, "layout") == _abi.LAYOUT["oi"]
    options = _abi.MatmulOptions(flags=_abi.MATMUL_TRANSPOSE_B if transposed else 0)
    return b._add(kind, b._own(a), b._own(w), b._own(by), ctypes.byref(options))


def grouped_gated_ffn(
    a: Value,
    ids: Value,
    weights: Value,
    w1: Value,
    w2: Value,
    *,
    activation: str = "silu",
    layout: str = "oi",
    up_first: bool = False,
    interleaved: bool = False,
    weight_on_input: bool = False,
    bias1: Optional[Value] = None,
    bias2: Optional[Value] = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    limit: float = 0.0,
) -> Value:
    """The sum over t of weights[m, t] (w2[e] c + bias2[e]) with e = ids[m, t] and c = activation(gate) * (up + beta), cast to a's dtype.

    Terms are cast to a's dtype and added in f32; the sum is cast to a's dtype. gate and up are columns of w1[e] a[m] + bias1[e]: halves, or in turns (`interleaved`).
    a [m, k]; ids s32 and weights [m, t]; w1 [experts, 2 n, k] and w2 [experts, l, n] ("oi"); biases [experts, 2 n] and [experts, l]. `weight_on_input`: weights multiply
    w1[e] a[m], that is a[m], and not the results. With "silu" the sigmoid's argument is `alpha` * gate. `limit`, if not 0, bounds gate from
    above, and up in both directions.
    """
    b = builder_of(a)
    flags = gate_order(up_first, interleaved)
    flags |= _abi.GROUPED_WEIGHT_ON_INPUT if flag(weight_on_input, "weight_on_input") else 0
    fields = shared_fields(b, activation, layout, bias1=bias1, bias2=bias2)
    gate = {name: number(value, name) for name, value in (("alpha", alpha), ("beta", beta), ("limit", limit))}
    options = _abi.GroupedGatedFfnOptions(flags=flags, **fields, **gate)
    return b._add("grouped_gated_ffn", *map(b._own, (a, ids, weights, w1, w2)), ctypes.byref(options))


def shared_fields(b: Builder, activation: str, layout: Optional[str] = None, **operands: Optional[Value]) -> Dict[str, int]:
    """Fields of the ABI's options that several composites have: layout, activation, and operands that may be missing."""
    of_layout = {} if layout is None else {"layout": named(_abi.LAYOUT, layout, "layout")}
    numbers = {"activation": named(_abi.ACTIVATION, activation, "activation")}
    return {**of_layout, **numbers, **{name: b._optional(value) for name, value in operands.items()}}


def gate_order(up_first: bool, interleaved: bool) -> int:
    """The flags that describe the places of gate and up in an expert's first matrix."""
    flags: int = _abi.GROUPED_UP_FIRST if flag(up_first, "up_first") else 0
    return flags | (_abi.GROUPED_INTERLEAVED if flag(interleaved, "interleaved") else 0)


def _norm(kind: str, x: Value, gamma: Optional[Value], beta: Optional[Value], eps: float) -> Value:
    b = builder_of(x)
    options = _abi.NormOptions(
        eps=_nonzero(eps, "eps", "be more than 0 in f32 and at most 1"), gamma=b._optional(gamma), beta=b._optional(beta)
    )
    return b._add(kind, b._own(x), ctypes.byref(options))


def _either(a: Operand, b: Operand) -> Builder:
    return builder_of(a if isinstance(a, Value) else b)


def _nonzero(value: Number, name: str, must: str) -> float:
    """`value` as a float, which must not be 0: for the library, 0 means that the option is not given."""
    found = number(value, name)
    if found == 0:
        raise invalid(f"{name} is 0, must {must}")
    return found
