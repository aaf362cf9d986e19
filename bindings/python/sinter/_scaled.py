"""Quantisation, and products of quantised values."""

from __future__ import annotations

import ctypes
from typing import NamedTuple, Optional

from . import _abi
from ._argument import flag, instance, named, number
from ._builder import Builder
from ._dtype import DType, DTypeLike
from ._library import call
from ._operators import gate_order, shared_fields
from ._value import Value, builder_of


class Scaled(NamedTuple):
    """Codes of 8 bits and the f32 scale that turns them back: codes * scale."""

    codes: Value
    scale: Value


_ACCUMULATE = {"promoted": 0, "fast": _abi.ACCUMULATE_FAST}


class Quantizer(NamedTuple):
    """scale = max(min(amax, upper_bound), eps) / F, F 448 of e4m3 and 127 of s8; the codes are x / scale, cast.

    Attributes:
        granularity: the elements that share a scale: "tensor", "row", "group" (128 of a row), or "static": ``scale``.
        codes: "e4m3" or "s8".
        eps: the least amax; 0 means 1e-10.
        upper_bound: the largest amax; 0: no bound.
        ue8m0: the scale is the next power of two.
        scale: f32 of rank 0, for "static".
    """

    granularity: str = "row"
    codes: DTypeLike = DType.E4M3
    eps: float = 0.0
    upper_bound: float = 0.0
    ue8m0: bool = False
    scale: Optional[Value] = None

    def _options(self, b: Builder) -> _abi.QuantizeOptions:
        return _abi.QuantizeOptions(
            granularity=named(_abi.GRANULARITY, self.granularity, "granularity"),
            flags=_abi.QUANTIZE_UE8M0 if flag(self.ue8m0, "ue8m0") else 0,
            codes=int(DType.of(self.codes)),
            eps=number(self.eps, "eps"),
            upper_bound=number(self.upper_bound, "upper_bound"),
            static_scale=b._optional(self.scale),
        )


def quantize(x: Value, quantizer: Quantizer = Quantizer()) -> Scaled:
    """x as codes with their scale: [] (tensor), [.., 1] (row), [.., k / 128] (group), or the given scale (static)."""
    b = builder_of(x)
    out = _abi.Scaled()
    options = instance(quantizer, Quantizer, "quantizer")._options(b)
    call("sinter_chain_add_quantize", b._get(), b._own(x), ctypes.byref(options), ctypes.byref(out))
    codes = b._value(out.codes)
    return Scaled(codes, b._value(out.scale) if quantizer.scale is None else quantizer.scale)


def _builder_of_scaled(value: Scaled) -> Builder:
    return builder_of(instance(value, Scaled, "an operand").codes)


def _scaled(b: Builder, value: Scaled) -> _abi.Scaled:
    _builder_of_scaled(value)
    return _abi.Scaled(b._own(value.codes), b._own(value.scale))


def scaled_matmul(
    a: Scaled,
    w: Scaled,
    bias: Optional[Value] = None,
    *,
    activation: str = "identity",
    accumulate: str = "promoted",
) -> Value:
    """activation(a W + bias) of codes and scales, not rounded. a [m, k]; w [n, k]; e4m3 or s8.

    The scales' shapes determine which elements share one: [], [rows, 1], [rows, k / 128], for w also [ceil(n / 128), k / 128].
    ``accumulate`` "fast": sums of e4m3 may stay in the tensor cores; not with scales of k / 128 values.
    """
    b = _builder_of_scaled(a)
    options = _abi.LinearOptions(flags=named(_ACCUMULATE, accumulate, "accumulate"), **shared_fields(b, activation, bias=bias))
    return b._add("scaled_matmul", _scaled(b, a), _scaled(b, w), ctypes.byref(options))


def scaled_gemm_chain(
    a: Scaled,
    w1: Scaled,
    w2: Scaled,
    *,
    quantizer: Quantizer = Quantizer(),
    bias1: Optional[Value] = None,
    bias2: Optional[Value] = None,
    activation: str = "identity",
    accumulate: str = "promoted",
) -> Value:
    """c w2 + bias2 of the quantised c = activation(a w1 + bias1), not rounded."""
    b = _builder_of_scaled(a)
    flags = named(_ACCUMULATE, accumulate, "accumulate")
    options = _abi.GemmChainOptions(flags=flags, **shared_fields(b, activation, bias1=bias1, bias2=bias2))
    quantize_options = instance(quantizer, Quantizer, "quantizer")._options(b)
    operands = (_scaled(b, a), _scaled(b, w1), _scaled(b, w2), ctypes.byref(quantize_options))
    return b._add("scaled_gemm_chain", *operands, ctypes.byref(options))


def scaled_gated_ffn(
    a: Scaled,
    gate: Scaled,
    up: Scaled,
    down: Scaled,
    *,
    quantizer: Quantizer = Quantizer(),
    bias_gate: Optional[Value] = None,
    bias_up: Optional[Value] = None,
    bias2: Optional[Value] = None,
    activation: str = "silu",
    accumulate: str = "promoted",
) -> Value:
    """c w_down + bias2 of the quantised c = activation(a w_gate + bias_gate) * (a w_up + bias_up), not rounded."""
    b = _builder_of_scaled(a)
    flags = named(_ACCUMULATE, accumulate, "accumulate")
    fields = shared_fields(b, activation, bias_gate=bias_gate, bias_up=bias_up, bias2=bias2)
    options = _abi.GatedFfnOptions(flags=flags, **fields)
    quantize_options = instance(quantizer, Quantizer, "quantizer")._options(b)
    operands = (_scaled(b, a), _scaled(b, gate), _scaled(b, up), _scaled(b, down), ctypes.byref(quantize_options))
    return b._add("scaled_gated_ffn", *operands, ctypes.byref(options))


def scaled_grouped_matmul(a: Scaled, w: Scaled, ids: Value) -> Value:
    """w[ids[m, t]] a[m], or a[m, t] of an a of three axes, of e4m3 codes and scales: f32 [m, t, n].

    w [experts, n, k]; ids s32 [m, t]. Scales of a are [], [m, 1] or [m, k / 128], of w [], [experts, 1, 1],
    [experts, n, 1] or [experts, ceil(n / 128), k / 128]. An id that names no expert gives zeros.
    """
    b = _builder_of_scaled(a)
    return b._add("scaled_grouped_matmul", _scaled(b, a), _scaled(b, w), b._own(ids), None)


def scaled_grouped_gated_ffn(
    a: Scaled,
    ids: Value,
    weights: Value,
    w1: Scaled,
    w2: Scaled,
    *,
    quantizer: Quantizer = Quantizer(),
    activation: str = "silu",
    up_first: bool = False,
    interleaved: bool = False,
) -> Value:
    """grouped_gated_ffn of e4m3 codes and scales: c is quantised, each term cast to bf16, and their sum f32."""
    b = _builder_of_scaled(a)
    options = _abi.GroupedGatedFfnOptions(**shared_fields(b, activation), flags=gate_order(up_first, interleaved))
    quantize_options = instance(quantizer, Quantizer, "quantizer")._options(b)
    operands = (_scaled(b, a), b._own(ids), b._own(weights), _scaled(b, w1), _scaled(b, w2))
    return b._add("scaled_grouped_gated_ffn", *operands, ctypes.byref(quantize_options), ctypes.byref(options))
