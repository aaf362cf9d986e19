"""What Sinter computes of a step: chains from attention to attention. They need no torch.

Inputs stand in the order of the functions' `b.input` and `b.constant`; weights are [out, in]. With `scales`, "row" or "group", a
layer's weights are codes in e4m3, each followed by its scales, and what a product takes is quantised where it is made.
"""

import sinter

M = sinter.M


def _weight(b, *shape):
    return b.constant("bf16", shape)


def _matrix(b, n, k, scales):
    if scales is None:
        return _weight(b, n, k)
    shape = (n, 1) if scales == "row" else (-(-n // 128), k // 128)
    return sinter.Scaled(b.constant("e4m3", (n, k)), b.constant("f32", shape))


def _operand(x, scales):
    """What products take: x itself, or its codes."""
    return x if scales is None else sinter.quantize(x, sinter.Quantizer(scales))


def _product(x, w):
    return sinter.scaled_matmul(x, w) if isinstance(w, sinter.Scaled) else x @ w.T


def _norm(model, b, x, folded, scales=None):
    """The rows that a product takes. Folded: the norm's weight is part of the product's, so a row has one factor."""
    if folded:
        return sinter.rmsnorm(x, eps=model.eps)
    x = sinter.rmsnorm(x, _weight(b, model.hidden), eps=model.eps)
    return x.cast("bf16") if scales is None else _operand(x, scales)


def _stream(model, b):
    return b.input("bf16", (M, model.hidden), name="residual")


def _behind_attention(model, b, scales):
    """attention's result and the residual stream -> the stream after o_proj."""
    attended, residual = b.input("bf16", (M, model.q), name="attended"), _stream(model, b)
    o = _matrix(b, model.hidden, model.q, scales)
    return (_product(_operand(attended, scales), o) + residual).cast("bf16")


def _gated(model, b, x, scales):
    gate, up = _matrix(b, model.inner, model.hidden, scales), _matrix(b, model.inner, model.hidden, scales)
    return sinter.silu(_product(x, gate)) * _product(x, up)


def _down(model, b, inner, residual, scales):
    down = _matrix(b, model.hidden, model.inner, scales)
    return (_product(_operand(inner, scales), down) + residual).cast("bf16")


def _out(model, b, stream, columns, folded, scales=None):
    """A norm and the product after it: the next layer's queries, keys and values, or logits."""
    x = _norm(model, b, stream, folded, scales)
    return _product(x, _matrix(b, columns, model.hidden, scales)).cast("bf16")


def first(model, folded=False, scales=None):
    """residual; norm, qkv weights -> qkv."""
    b = sinter.Builder()
    return b.finish(_out(model, b, _stream(model, b), model.qkv, folded, scales))


def _experts(model, b, x, residual):
    """Router, experts and residual. Weights: the router's, gate above up and down of all experts."""
    likely = sinter.softmax(x @ _weight(b, model.experts, model.hidden).T)
    both, down = _weight(b, model.experts, 2 * model.inner, model.hidden), _weight(b, model.experts, model.hidden, model.inner)
    ids = sinter.top_k(likely, model.top)
    chosen = likely.take(ids)
    mixed = sinter.grouped_gated_ffn(x, ids, chosen / chosen.sum(-1, keepdims=True), both, down)
    return (mixed + residual).cast("bf16")


def _layer(model, b, folded, scales):
    stream = _behind_attention(model, b, scales)
    if model.experts:
        return _experts(model, b, _norm(model, b, stream, False), stream)
    return _down(model, b, _gated(model, b, _norm(model, b, stream, folded, scales), scales), stream, scales)


def between(model, folded=False, scales=None):
    """attended, residual; o, norm, gate, up, down, norm, qkv weights -> the next residual, qkv. In a mixture the router's and
    both matrices of all experts stand for gate, up and down."""
    b = sinter.Builder()
    stream = _layer(model, b, folded, scales)
    return b.finish(stream, _out(model, b, stream, model.qkv, folded, scales))


def last(model, folded=False, scales=None):
    """attended, residual; o, norm, gate, up, down, norm, logits' weights -> logits. The matrix of logits is bf16."""
    b = sinter.Builder()
    return b.finish(_out(model, b, _layer(model, b, folded, scales), model.vocabulary, folded))


def upper(model, folded=False, scales=None):
    """The first half of `between`. attended, residual; o, norm, gate, up weights -> the stream, the FFN's intermediate."""
    b = sinter.Builder()
    stream = _behind_attention(model, b, scales)
    return b.finish(stream, _gated(model, b, _norm(model, b, stream, folded, scales), scales).cast("bf16"))


def _lower(model, columns, folded, keep, scales):
    b = sinter.Builder()
    inner = b.input("bf16", (M, model.inner), name="inner")
    stream = _down(model, b, inner, _stream(model, b), scales)
    out = _out(model, b, stream, columns, folded, scales if keep else None)
    return b.finish(stream, out) if keep else b.finish(out)


def lower(model, folded=False, scales=None):
    """The second half of `between`. inner, residual; down, norm, qkv weights -> the next residual, qkv."""
    return _lower(model, model.qkv, folded, True, scales)


def lower_last(model, folded=False, scales=None):
    """The second half of `last`. inner, residual; down, norm, logits' weights -> logits."""
    return _lower(model, model.vocabulary, folded, False, scales)
