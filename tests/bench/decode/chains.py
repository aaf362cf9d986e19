"""What Sinter computes of a step: chains from attention to attention. They need no torch.

Inputs stand in the order of the functions' `b.input` and `b.constant`; weights are [out, in].
"""

import sinter

M = sinter.M


def _weight(b, *shape):
    return b.constant("bf16", shape)


def _norm(model, b, x, folded):
    """The rows that a product takes. Folded: the norm's weight is part of the product's, so a row has one factor."""
    if folded:
        return sinter.rmsnorm(x, eps=model.eps)
    return sinter.rmsnorm(x, _weight(b, model.hidden), eps=model.eps).cast("bf16")


def _stream(model, b):
    return b.input("bf16", (M, model.hidden), name="residual")


def _behind_attention(model, b):
    """attention's result and the residual stream -> the stream behind o_proj."""
    attended, residual = b.input("bf16", (M, model.q), name="attended"), _stream(model, b)
    return (attended @ _weight(b, model.hidden, model.q).T + residual).cast("bf16")


def _gated(model, b, x):
    gate, up = _weight(b, model.inner, model.hidden), _weight(b, model.inner, model.hidden)
    return sinter.silu(x @ gate.T) * (x @ up.T)


def _down(model, b, inner, residual):
    return (inner @ _weight(b, model.hidden, model.inner).T + residual).cast("bf16")


def _out(model, b, stream, columns, folded):
    """A norm and the product behind it: the next layer's queries, keys and values, or logits."""
    x = _norm(model, b, stream, folded)
    return (x @ _weight(b, columns, model.hidden).T).cast("bf16")


def first(model, folded=False):
    """residual; norm, qkv weights -> qkv."""
    b = sinter.Builder()
    return b.finish(_out(model, b, _stream(model, b), model.qkv, folded))


def between(model, folded=False):
    """attended, residual; o, norm, gate, up, down, norm, qkv weights -> the next residual, qkv."""
    b = sinter.Builder()
    stream = _behind_attention(model, b)
    stream = _down(model, b, _gated(model, b, _norm(model, b, stream, folded)), stream)
    return b.finish(stream, _out(model, b, stream, model.qkv, folded))


def last(model, folded=False):
    """attended, residual; o, norm, gate, up, down, norm, logits' weights -> logits."""
    b = sinter.Builder()
    stream = _behind_attention(model, b)
    stream = _down(model, b, _gated(model, b, _norm(model, b, stream, folded)), stream)
    return b.finish(_out(model, b, stream, model.vocabulary, folded))


def upper(model, folded=False):
    """The first half of `between`. attended, residual; o, norm, gate, up weights -> the stream, the FFN's intermediate."""
    b = sinter.Builder()
    stream = _behind_attention(model, b)
    return b.finish(stream, _gated(model, b, _norm(model, b, stream, folded)).cast("bf16"))


def _lower(model, columns, folded, keep):
    b = sinter.Builder()
    inner = b.input("bf16", (M, model.inner), name="inner")
    stream = _down(model, b, inner, _stream(model, b))
    out = _out(model, b, stream, columns, folded)
    return b.finish(stream, out) if keep else b.finish(out)


def lower(model, folded=False):
    """The second half of `between`. inner, residual; down, norm, qkv weights -> the next residual, qkv."""
    return _lower(model, model.qkv, folded, keep=True)


def lower_last(model, folded=False):
    """The second half of `last`. inner, residual; down, norm, logits' weights -> logits."""
    return _lower(model, model.vocabulary, folded, keep=False)
