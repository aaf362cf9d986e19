"""Ops as functions on values. Written by ./dev bindings from include/sinter/*.h; do not edit."""

from __future__ import annotations

from . import _abi
from ._argument import integer, named
from ._builder import Operand, Value, builder_of

__all__ = ["exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "relu", "reciprocal", "square", "sin", "cos",
    "floor", "ceil_pow2", "log1p", "expm1", "ceil", "round", "trunc", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "asinh", "acosh", "atanh", "erfc", "exp2", "log2", "log10", "fmod", "copysign", "atan2", "hypot", "silu",
    "all_reduce", "all_gather", "reduce_scatter", "gather", "scatter", "top_k", "cumsum", "softplus", "argmax",
    "argmin", "swiglu", "rope", "gru_cell", "dequantize_u4", "dequantize_e2m1", "dequantize_u4_packed",
    "dequantize_e2m1_packed", "pack_codes", "pack_scales", "pack_zeros", "dequantize_e8m0"]


def exp(x: Value) -> Value:
    """e^x."""
    return builder_of(x)._unary("exp", x)


def log(x: Value) -> Value:
    """Natural logarithm."""
    return builder_of(x)._unary("log", x)


def sqrt(x: Value) -> Value:
    """Square root."""
    return builder_of(x)._unary("sqrt", x)


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x)."""
    return builder_of(x)._unary("rsqrt", x)


def tanh(x: Value) -> Value:
    """Hyperbolic tangent."""
    return builder_of(x)._unary("tanh", x)


def erf(x: Value) -> Value:
    """Error function."""
    return builder_of(x)._unary("erf", x)


def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x)."""
    return builder_of(x)._unary("sigmoid", x)


def relu(x: Value) -> Value:
    """max(x, 0); NaN stays NaN."""
    return builder_of(x)._unary("relu", x)


def reciprocal(x: Value) -> Value:
    """1 / x."""
    return builder_of(x)._unary("reciprocal", x)


def square(x: Value) -> Value:
    """x * x."""
    return builder_of(x)._unary("square", x)


def sin(x: Value) -> Value:
    """Sine."""
    return builder_of(x)._unary("sin", x)


def cos(x: Value) -> Value:
    """Cosine."""
    return builder_of(x)._unary("cos", x)


def floor(x: Value) -> Value:
    """The largest integer that is not above x."""
    return builder_of(x)._unary("floor", x)


def ceil_pow2(x: Value) -> Value:
    """The smallest power of two that is not less, and 2^-126 or more."""
    return builder_of(x)._unary("ceil_pow2", x)


def log1p(x: Value) -> Value:
    """log(1 + x)."""
    return builder_of(x)._unary("log1p", x)


def expm1(x: Value) -> Value:
    """e^x - 1."""
    return builder_of(x)._unary("expm1", x)


def ceil(x: Value) -> Value:
    """The smallest integer that is not below x."""
    return builder_of(x)._unary("ceil", x)


def round(x: Value) -> Value:
    """To the nearest integer, halves to the even one."""
    return builder_of(x)._unary("round", x)


def trunc(x: Value) -> Value:
    """To the nearest integer that is not larger in magnitude."""
    return builder_of(x)._unary("trunc", x)


def tan(x: Value) -> Value:
    """Tangent."""
    return builder_of(x)._unary("tan", x)


def asin(x: Value) -> Value:
    """Inverse sine."""
    return builder_of(x)._unary("asin", x)


def acos(x: Value) -> Value:
    """Inverse cosine."""
    return builder_of(x)._unary("acos", x)


def atan(x: Value) -> Value:
    """Inverse tangent."""
    return builder_of(x)._unary("atan", x)


def sinh(x: Value) -> Value:
    """Hyperbolic sine."""
    return builder_of(x)._unary("sinh", x)


def cosh(x: Value) -> Value:
    """Hyperbolic cosine."""
    return builder_of(x)._unary("cosh", x)


def asinh(x: Value) -> Value:
    """Inverse hyperbolic sine."""
    return builder_of(x)._unary("asinh", x)


def acosh(x: Value) -> Value:
    """Inverse hyperbolic cosine."""
    return builder_of(x)._unary("acosh", x)


def atanh(x: Value) -> Value:
    """Inverse hyperbolic tangent."""
    return builder_of(x)._unary("atanh", x)


def erfc(x: Value) -> Value:
    """1 - erf(x), also where erf(x) rounds to 1."""
    return builder_of(x)._unary("erfc", x)


def exp2(x: Value) -> Value:
    """2^x."""
    return builder_of(x)._unary("exp2", x)


def log2(x: Value) -> Value:
    """Logarithm to base 2."""
    return builder_of(x)._unary("log2", x)


def log10(x: Value) -> Value:
    """Logarithm to base 10."""
    return builder_of(x)._unary("log10", x)


def silu(x: Value) -> Value:
    """x * sigmoid(x)."""
    return builder_of(x)._activate("silu", x)


def fmod(a: Operand, b: Operand) -> Value:
    """The rest a - b trunc(a / b), exact, with a's sign."""
    return builder_of(a if isinstance(a, Value) else b)._binary("fmod", a, b)


def copysign(a: Operand, b: Operand) -> Value:
    """|a| with b's sign, which -0 and NaN have too."""
    return builder_of(a if isinstance(a, Value) else b)._binary("copysign", a, b)


def atan2(a: Operand, b: Operand) -> Value:
    """The angle of the point (b, a), from -pi to pi."""
    return builder_of(a if isinstance(a, Value) else b)._binary("atan2", a, b)


def hypot(a: Operand, b: Operand) -> Value:
    """sqrt(a^2 + b^2), infinite if a or b is."""
    return builder_of(a if isinstance(a, Value) else b)._binary("hypot", a, b)


def all_reduce(x: Value, ranks: int) -> Value:
    """The sum of x over the GPUs of a group (sinter_group.h), of which each has inputs of its own: of x rounded to its
    dtype, floating, in the order of ranks, in f32, rounded to x's dtype. All ranks get the same bits. `ranks`, 1 to 8,
    is the same in all sums and gathers of a chain, which is then split over so many GPUs; of 1 each is a cast to x's
    dtype. SINTER_INVALID_ARGUMENT for any other number, and where a sum or gather of the chain has another."""
    b = builder_of(x)
    return b._add("all_reduce", b._own(x), integer(ranks, "ranks", -(2**31), 2**31 - 1))


def all_gather(x: Value, axis: int, ranks: int) -> Value:
    """What all ranks have of x, joined along `axis` in the order of ranks: of x rounded to its dtype, which is floating
    or e4m3. The extent of `axis` is constant, and `ranks` times as large in the result. Rows of M are gathered with an
    axis of their own in front: of [1, M, n] along axis 0 into [ranks, M, n]. `ranks` and errors are as in
    sinter_chain_add_all_reduce."""
    b = builder_of(x)
    return b._add("all_gather", b._own(x), integer(axis, "axis", -(2**31), 2**31 - 1),
                                integer(ranks, "ranks", -(2**31), 2**31 - 1))


def reduce_scatter(x: Value, axis: int, ranks: int) -> Value:
    """This rank's part of the sum of x over ranks, in the bits of sinter_chain_add_all_reduce: rank r gets the r-th of
    `ranks` equal parts of `axis`, whose extent is constant and a multiple of `ranks`. Rows of M are scattered from
    [ranks, M, n] along axis 0 into [1, M, n]."""
    b = builder_of(x)
    return b._add("reduce_scatter", b._own(x), integer(axis, "axis", -(2**31), 2**31 - 1),
                                    integer(ranks, "ranks", -(2**31), 2**31 - 1))


def gather(x: Value, ids: Value, axis: int) -> Value:
    """Takes by ids, which are s32 or s64, an input or computed. Along axis 0 rows of x [rows, ..]: result[i.., ..] =
    x[ids[i..], ..]; its extents are ids' and then x's after the rows: an embedding, index_select. Along the last axis
    of x, or -1, single elements: result[i.., t] = x[i.., ids[i.., t]], with ids' extents, which equal x's except on
    that axis: take_along_dim. An id counts from 0; one that is negative or not below the extent gives zeros. x is of
    any dtype but s64, and so is the result. An extent of ids may be SINTER_DIM_M, and x's rows may; not an axis whose
    elements are taken."""
    b = builder_of(x)
    return b._add("gather", b._own(x), b._own(ids), integer(axis, "axis", -(2**31), 2**31 - 1))


def scatter(x: Value, ids: Value, rows: Value) -> Value:
    """x [rows, ..] with rows written over it, as into a cache: result[ids[i..], ..] = rows[i.., ..], and x elsewhere;
    index_copy. rows has ids' extents and then x's after its rows. It has x's dtype, which is any but s64; ids are s32
    or s64, an input or computed. If ids are equal, the last one in row-major order wins. An id that is negative or not
    below the extent writes nothing. If an output of the result may share x's buffer (sinter_output_options.alias) and
    does at launch, only what is written is touched; else the rest is copied. An extent of ids may be SINTER_DIM_M, and
    x's rows may."""
    b = builder_of(x)
    return b._add("scatter", b._own(x), b._own(ids), b._own(rows))


def top_k(x: Value, count: int) -> Value:
    """Where the `count` largest numbers of each row of x [.., n] are: s32 [.., count], falling; of equal ones the lower
    place first, -0 equals 0, and NaN counts as the largest, as torch.topk has it. x is floating or s32; count is 1 to
    64 and at most n. Their values: a gather along -1."""
    b = builder_of(x)
    return b._add("top_k", b._own(x), integer(count, "count", -(2**31), 2**31 - 1))


def cumsum(x: Value) -> Value:
    """Running sums along the last axis of x [.., n], which is not SINTER_DIM_M, as torch.cumsum has them: result[.., i]
    is the sum of x[.., 0] to x[.., i]. f32 of floating x; s32 wraps."""
    b = builder_of(x)
    return b._add("cumsum", b._own(x))


def softplus(x: Value) -> Value:
    """log(1 + exp(x)), right for x of any magnitude."""
    b = builder_of(x)
    return b._add("softplus", b._own(x))


def argmax(x: Value) -> Value:
    """Where the largest number of each row of x [.., n] is, s32 [..]: of equal ones the first, and the first NaN where
    there is one. x is floating or s32."""
    b = builder_of(x)
    return b._add("argmax", b._own(x))


def argmin(x: Value) -> Value:
    """Where the smallest number of each row of x [.., n] is, s32 [..]: of equal ones the first, and the first NaN where
    there is one. x is floating or s32."""
    b = builder_of(x)
    return b._add("argmin", b._own(x))


def swiglu(gate: Value, up: Value) -> Value:
    """silu(gate) * up."""
    b = builder_of(gate)
    return b._add("swiglu", b._own(gate), b._own(up))


def rope(x: Value, cos: Value, sin: Value) -> Value:
    """Rotary embedding, halves form: (t1, t2) = halves of x's last axis, concat(t1 cos - t2 sin, t2 cos + t1 sin).
    `cos` and `sin` broadcast to the shape of a half."""
    b = builder_of(x)
    return b._add("rope", b._own(x), b._own(cos), b._own(sin))


def gru_cell(xg: Value, hg: Value, h: Value) -> Value:
    """xg, hg [.., 3h], h [.., h]: r = s(xg0 + hg0), z = s(xg1 + hg1), n = tanh(xg2 + r hg2); (1 - z) n + z h."""
    b = builder_of(xg)
    return b._add("gru_cell", b._own(xg), b._own(hg), b._own(h))


def dequantize_u4(w: Value, scale: Value, zero: Value) -> Value:
    """Weights of four bits as f32 [.., k], unrounded: cast them to bf16 for a product. w is s8 [.., k / 2]; byte i of a
    row has element 2 i in its low four bits and element 2 i + 1 in the others. scale, floating [.., groups], has a
    value for each group of k / groups neighbours. (code - zero) * scale: codes are 0 to 15; zero, floating, is of rank
    0 (8 of the symmetric form) or has the dims of scale."""
    b = builder_of(w)
    return b._add("dequantize_u4", b._own(w), b._own(scale), b._own(zero))


def dequantize_e2m1(w: Value, scale: Value) -> Value:
    """Weights of e2m1 (mxfp4), a sign bit, then 0 .5 1 1.5 2 3 4 6, times their scales, as f32 [.., k], unrounded. w
    and scale lie as in dequantize_u4; a scale of E8M0 is exact as bf16."""
    b = builder_of(w)
    return b._add("dequantize_e2m1", b._own(w), b._own(scale))


def dequantize_u4_packed(w: Value, scale: Value, zero: Value) -> Value:
    """The same as f32 [n, k] of a packed matrix, whose bytes lie as kernels read them: the order of vLLM's Marlin
    kernels, which plans read faster and for any number of rows. w is s8 [k / 16, 8 n], n a multiple of 64. A row has
    512 bytes for each 64 columns. Byte 16 (4 i + j) + 4 f + 2 e + b of those has the code of column 16 f + 8 b + i and
    of element 2 j + e of the row's 16 of k in its low four bits, and of element 2 j + e + 8 in the others. scale is
    [groups, n]: of each 64 columns, place 8 i + j has column 8 j + i. zero is of rank 0, or lies as scale."""
    b = builder_of(w)
    return b._add("dequantize_u4_packed", b._own(w), b._own(scale), b._own(zero))


def dequantize_e2m1_packed(w: Value, scale: Value) -> Value:
    """Weights of e2m1 of a packed matrix: w and scale lie as in dequantize_u4_packed."""
    b = builder_of(w)
    return b._add("dequantize_e2m1_packed", b._own(w), b._own(scale))


def pack_codes(w: Value, checkpoint: str) -> Value:
    """Codes of a checkpoint in that order, as s8 [k / 16, 8 n]: n is a multiple of 64, k of 16. A chain of this op and
    the next ones runs once, and its outputs are kept (docs/four-bit.md). w is s8, four for each word of 32 bits: [n, k
    / 2] of ROWS and COMPRESSED_TENSORS, [k, n / 2] of AWQ, [k / 8, 4 n] of GPTQ, whose elements of k lie in the order
    of their groups: its g_idx never falls."""
    b = builder_of(w)
    return b._add("pack_codes", b._own(w), named(_abi.CHECKPOINT, checkpoint, "checkpoint"))


def pack_scales(scale: Value, checkpoint: str) -> Value:
    """Floating scales, or floating zeros, as packed ones [groups, n] of the same type. scale is [n, groups] of ROWS and
    COMPRESSED_TENSORS, else [groups, n]."""
    b = builder_of(scale)
    return b._add("pack_scales", b._own(scale), named(_abi.CHECKPOINT, checkpoint, "checkpoint"))


def pack_zeros(zero: Value, checkpoint: str) -> Value:
    """Zeros of four bits as packed ones, f32 [groups, n] of 0 to 15. zero is s8: [n / 8, 4 groups] of
    COMPRESSED_TENSORS, [groups, n / 2] of AWQ and GPTQ. ROWS is SINTER_INVALID_ARGUMENT: its zeros are floating."""
    b = builder_of(zero)
    return b._add("pack_zeros", b._own(zero), named(_abi.CHECKPOINT, checkpoint, "checkpoint"))


def dequantize_e8m0(scale: Value) -> Value:
    """Scales of E8M0, s8 of any dims, as f32: byte b is 2^(b - 127), 255 is NaN. Cast to bf16, they are exact."""
    b = builder_of(scale)
    return b._add("dequantize_e8m0", b._own(scale))
