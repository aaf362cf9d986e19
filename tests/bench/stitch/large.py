#!/usr/bin/env python3
"""Graphs of 100 to 2,000 memory-intensive ops: the rest of layers and training steps when products are opaque.

A product's result is an input of the graph and what feeds a product is an output, so a graph may be several components
that run together. `large.py --out DIR` writes them; they are not committed, being long. Same conventions as graphs.py;
their oracle is the reference executor.
"""

import argparse
import os
import sys

import dag
from dag import Dag
from graphs import Problem, adam_step, gelu_erf_derivative, gru_gates, layernorm_backward, lstm_cell, rotated

LARGE = {}  # name: Problem


def graph(full, reduced, **draws):
    def register(build):
        LARGE[build.__name__] = Problem(build, full, reduced, draws)
        return build

    return register


def dropped(g, x, mask, keep):
    """Dropout by a given mask, scaled so that the expectation stays."""
    if mask.dtype == "pred":
        return g.select(mask, x * (1 / keep), g.scalar(0))
    return x * mask.f32() * (1 / keep)


def statistics_saved(g, x, gamma, beta, eps):
    """Layer norm that also outputs its mean and reciprocal deviation."""
    mean, variance = dag.moments(x, -1)
    rstd = (variance + eps).unary("rsqrt")
    g.output(mean)
    g.output(rstd)
    return (x - mean) * rstd * gamma.f32() + beta.f32()


def heads_apart(t, batch, heads):
    """[batch * length, heads * dim] to [batch, heads, length, dim]."""
    rows, hidden = t.dims
    return t.reshape(batch, rows // batch, heads, hidden // heads).transpose(0, 2, 1, 3)


def heads_together(t):
    """The inverse of heads_apart."""
    batch, heads, length, dim = t.dims
    return t.transpose(0, 2, 1, 3).reshape(batch * length, heads * dim)


# ---------------------------------------------------------------- Transformers

BERT = dict(full=dict(batch=32, length=128, heads=12, hidden=768, ffn=3072, layers=2),
            reduced=dict(batch=2, length=5, heads=3, hidden=12, ffn=20, layers=2))
KEEP = 0.9


def bert_forward(g, n, batch, length, heads, hidden, ffn):
    rows = batch * length
    matrix = lambda name, cols=hidden: g.input(f"{n}.{name}", "bf16", rows, cols).f32()
    vector = lambda name, cols=hidden: g.weight(f"{n}.{name}", cols).f32()
    for part in "qkv":  # biases; split into heads
        t = matrix(part) + vector("b" + part)
        g.output(heads_apart((0.125 * t if part == "q" else t).bf16(), batch, heads))
    scores = g.input(f"{n}.scores", "bf16", batch, heads, length, length).f32()
    pad = g.input(f"{n}.pad", "bf16", batch, 1, 1, length).f32()
    p = dag.softmax(scores + pad)
    g.output(p.bf16())  # the backward pass needs it
    g.output(dropped(g, p, g.input(f"{n}.drop0", "pred", batch, heads, length, length), KEEP).bf16())
    context = g.input(f"{n}.context", "bf16", batch, heads, length, hidden // heads)
    g.output(heads_together(context))
    x = matrix("x")
    attended = dropped(g, matrix("projected") + vector("bo"), g.input(f"{n}.drop1", "pred", rows, hidden), KEEP)
    y = statistics_saved(g, x + attended, vector("gamma1"), vector("beta1"), 1e-12).bf16()
    g.output(y)
    g.output(dag.gelu_erf(matrix("mid", ffn) + vector("b1", ffn)).bf16())
    fed = dropped(g, matrix("out") + vector("b2"), g.input(f"{n}.drop2", "pred", rows, hidden), KEEP)
    g.output(statistics_saved(g, y.f32() + fed, vector("gamma2"), vector("beta2"), 1e-12).bf16())


@graph(**BERT)
def bert_layer_forward(g, layers, **sizes):
    for n in range(layers):
        bert_forward(g, n, **sizes)


def attention_backward(g, name, batch, heads, length, keys, hidden, mask, keep):
    """Backward of dropout, softmax and scale, and of the heads' layout, between the products of one attention."""
    dp = g.input(name + ".dp", "bf16", batch, heads, length, keys).f32()
    p = g.input(name + ".p", "bf16", batch, heads, length, keys).f32()
    dp = dropped(g, dp, mask, keep)
    g.output((0.125 * (p * (dp - (dp * p).sum(-1)))).bf16())
    for part, extent in (("dq", length), ("dk", keys), ("dv", keys)):
        grad = g.input(f"{name}.{part}", "bf16", batch, heads, extent, hidden // heads)
        flat = heads_together(grad)
        g.output(flat)
        g.output(flat.f32().sum(0, keep=False))  # the bias's gradient


def norm_backward(g, name, dy, rows, hidden):
    """Gradients of one layer norm from saved statistics; gives dx in f32."""
    x = g.input(name + ".x", "bf16", rows, hidden).f32()
    mean, rstd = g.input(name + ".mean", "f32", rows, 1), g.input(name + ".rstd", "f32", rows, 1)
    dx, dgamma, dbeta = layernorm_backward(g, dy, x, mean, rstd, g.weight(name + ".gamma", hidden).f32())
    g.output(dgamma)
    g.output(dbeta)
    return dx


def branch_backward(g, name, dsum, mask, keep):
    """Gradient into a dropped branch with a bias: what feeds the product, and the bias's."""
    grad = dropped(g, dsum, mask, keep)
    g.output(grad.bf16())
    g.output(grad.sum(0, keep=False))


def bert_backward(g, n, batch, length, heads, hidden, ffn):
    rows = batch * length
    matrix = lambda name, cols=hidden: g.input(f"{n}.{name}", "bf16", rows, cols).f32()
    mask = lambda name: g.input(f"{n}.{name}", "pred", rows, hidden)
    dsum = norm_backward(g, f"{n}.norm2", matrix("dy"), rows, hidden)
    branch_backward(g, f"{n}.ffn", dsum, mask("drop2"), KEEP)
    dz = matrix("dgelu", ffn) * gelu_erf_derivative(matrix("mid", ffn) + g.weight(f"{n}.b1", ffn).f32())
    g.output(dz.bf16())
    g.output(dz.sum(0, keep=False))
    dsum = norm_backward(g, f"{n}.norm1", matrix("dffn") + dsum, rows, hidden)
    branch_backward(g, f"{n}.attention", dsum, mask("drop1"), KEEP)
    dcontext = g.input(f"{n}.dcontext", "bf16", rows, hidden)
    g.output(heads_apart(dcontext, batch, heads))
    drop0 = g.input(f"{n}.drop0", "pred", batch, heads, length, length)
    attention_backward(g, f"{n}.attention", batch, heads, length, length, hidden, drop0, KEEP)
    g.output((dsum + matrix("dxq") + matrix("dxk") + matrix("dxv")).bf16())


@graph(**BERT)
def bert_layer_backward(g, layers, **sizes):
    for n in range(layers):
        bert_backward(g, n, **sizes)


@graph(full=dict(batch=32, length=128, keys=160, heads=8, hidden=512, ffn=2048),
       reduced=dict(batch=2, length=5, keys=7, heads=2, hidden=10, ffn=18))
def transformer_layer_backward(g, batch, length, keys, heads, hidden, ffn):
    """A decoder layer: self-attention with a causal mask, attention to the encoder, ReLU; masks as bf16."""
    rows, keep = batch * length, 0.9
    matrix = lambda name, cols=hidden: g.input(name, "bf16", rows, cols).f32()
    dsum = norm_backward(g, "norm3", matrix("dy"), rows, hidden)
    branch_backward(g, "ffn", dsum, g.input("drop.ffn", "bf16", rows, hidden), keep)
    drelu, mid = matrix("drelu", ffn), matrix("mid", ffn) + g.weight("b1", ffn).f32()
    dz = g.select(g.compare("gt", mid, g.scalar(0)), drelu, g.scalar(0))
    g.output(dz.bf16())
    g.output(dz.sum(0, keep=False))
    dsum = matrix("dffn") + dsum
    for name, extent in (("cross", keys), ("self", length)):
        dsum = norm_backward(g, name + ".norm", dsum, rows, hidden)
        branch_backward(g, name, dsum, g.input(f"drop.{name}", "bf16", rows, hidden), keep)
        g.output(heads_apart(g.input(name + ".dcontext", "bf16", rows, hidden), batch, heads))
        mask = g.input(f"drop.{name}.p", "bf16", batch, heads, length, extent)
        attention_backward(g, name, batch, heads, length, extent, hidden, mask, keep)
        dsum = dsum + matrix(name + ".dx")
    g.output(dsum.bf16())
    # The causal mask and log-softmax of the next step's scores go with it.
    scores = g.input("scores", "bf16", batch, heads, length, length).f32()
    row = g.iota("s32", 0, length, length)
    seen = g.compare("le", g.iota("s32", 1, length, length), row).broadcast([batch, heads, length, length])
    g.output(dag.softmax(g.select(seen, 0.125 * scores, g.scalar(-1e9))).bf16())


# ---------------------------------------------------------------- DIEN


def gru_step(g, name, rows, hidden, xg, h, attention=None):
    """One step: h' and what the backward pass needs. attention [rows, 1] makes it AUGRU."""
    hg = g.input(name + ".hg", "bf16", rows, 3 * hidden).f32()
    r, z, n = gru_gates(g, xg, hg)
    u = z if attention is None else (1 - attention) * z
    h_next = u * h + (1 - u) * n
    g.output(h_next.bf16())
    return h_next.bf16().f32(), (h, hg, u, r, z, n)


def gru_step_backward(g, name, dh, saved, attention=None):
    """Gradients of one step: outputs those of both products' results, returns what goes on to h."""
    h, hg, u, r, z, n = saved
    dn, du = dh * (1 - u), dh * (h - n)
    dn_in = dn * (1 - n.unary("square"))
    dz = du if attention is None else du * (1 - attention)
    dz_in = dz * z * (1 - z)
    if attention is not None:
        g.output((-(du * z)).sum(-1).bf16())
    dr_in = dn_in * hg.split(3)[2] * r * (1 - r)
    g.output(g.concat([dr_in, dz_in, dn_in], -1).bf16())
    g.output(g.concat([dr_in, dz_in, dn_in * r], -1).bf16())
    through_product = g.input(name + ".dh", "bf16", *dh.dims).f32()
    return dh * u + through_product


@graph(full=dict(batch=256, steps=10, hidden=36, length=100, width=200, rows=25600),
       reduced=dict(batch=3, steps=3, hidden=5, length=7, width=9, rows=21))
def dien_train(g, batch, steps, hidden, length, width, rows):
    """GRU, attention, AUGRU and a Dice layer forward; then both recurrences and Dice backward."""
    parts = lambda name: g.input(name, "bf16", batch, steps * 3 * hidden).split(steps)
    attention = g.input("scores", "bf16", batch, length).f32() + g.input("mask", "bf16", batch, length).f32()
    weights = dag.softmax(attention)
    g.output(weights.bf16())
    picked = [weights.slice(-1, i, i + 1) for i in range(steps)]
    tapes = {}
    for name, weighted in (("gru", False), ("augru", True)):
        h = g.input(name + ".h0", "bf16", batch, hidden).f32()
        tapes[name] = []
        for i, xg in enumerate(parts(name + ".xg")):
            h, saved = gru_step(g, f"{name}{i}", batch, hidden, xg.f32(), h, picked[i] if weighted else None)
            tapes[name].append(saved)
    for name, weighted in (("augru", True), ("gru", False)):
        dh = g.input(name + ".dh", "bf16", batch, hidden).f32()
        for i in reversed(range(steps)):
            dh = gru_step_backward(g, f"{name}{i}.back", dh, tapes[name][i], picked[i] if weighted else None)
        g.output(dh.bf16())
    dice_train(g, rows, width)


def dice_train(g, rows, width):
    """Dice forward and backward with respect to x, alpha and through the batch's statistics."""
    x, dy = g.input("dice.x", "bf16", rows, width).f32(), g.input("dice.dy", "bf16", rows, width).f32()
    alpha = g.weight("dice.alpha", width).f32()
    mean, variance = dag.moments(x, 0)
    rstd = (variance + 1e-9).unary("rsqrt")
    normal = (x - mean) * rstd
    p = dag.sigmoid(normal)
    g.output((p * x + (1 - p) * alpha * x).bf16())
    g.output((dy * (1 - p) * x).sum(0, keep=False))
    dnormal = dy * (x - alpha * x) * p * (1 - p)
    through = rstd * (dnormal - dnormal.mean(0) - normal * (dnormal * normal).mean(0))
    g.output((dy * (p + (1 - p) * alpha) + through).bf16())


# ---------------------------------------------------------------- speech, text in images


@graph(full=dict(batch=8, hidden=1024, layers=5, steps=4, classes=4096),
       reduced=dict(batch=3, hidden=13, layers=2, steps=2, classes=37))
def asr_step(g, batch, hidden, layers, steps, classes):
    """Layers of LSTM with layer norm over some frames, and the log-probabilities of the last."""
    for layer in range(layers):
        c = g.input(f"{layer}.c", "bf16", batch, hidden).f32()
        gamma, beta = g.weight(f"{layer}.gamma", hidden), g.weight(f"{layer}.beta", hidden)
        bias = g.weight(f"{layer}.b", 4 * hidden).f32()
        for step in range(steps):
            from_x, from_h = (g.input(f"{layer}.{step}.{part}", "bf16", batch, 4 * hidden).f32() for part in "xh")
            c, h = lstm_cell(g, from_x + from_h + bias, c)
            g.output(h.bf16())
            g.output(dag.layernorm(h, gamma, beta, 1e-5).bf16())
        g.output(c.bf16())
    logits = g.input("logits", "bf16", batch * steps, classes).f32() + g.weight("logits.b", classes).f32()
    g.output((logits - dag.logsumexp(logits)).bf16())


@graph(full=dict(batch=8, height=8, width=52, channels=256, hidden=256, steps=26, classes=37),
       reduced=dict(batch=2, height=4, width=6, channels=7, hidden=5, steps=3, classes=37))
def crnn_head(g, batch, height, width, channels, hidden, steps, classes):
    """Batch norm, ReLU and pooling of two convolutions, a bidirectional LSTM over the columns, log-softmax."""
    for block in range(2):
        x = g.input(f"conv{block}", "bf16", batch, height, width, channels).f32()
        gamma, beta = (g.weight(f"conv{block}.{name}", channels, dtype="f32") for name in ("gamma", "beta"))
        mean, variance = dag.moments(x, 0, 1, 2)
        g.output(mean.reshape(channels))
        g.output(variance.reshape(channels))
        y = ((x - mean) * (variance + 1e-5).unary("rsqrt") * gamma + beta).unary("relu")
        g.output(pooled(g, y).bf16())
    hidden_states = []
    for direction in ("forward", "back"):
        c, bias = g.input(direction + ".c", "bf16", batch, hidden).f32(), g.weight(direction + ".b", 4 * hidden).f32()
        for step in range(steps):
            gates = g.input(f"{direction}{step}", "bf16", batch, 4 * hidden).f32() + bias
            c, h = lstm_cell(g, gates, c)
            hidden_states.append(h.bf16().reshape(1, batch, hidden))
    forward, back = g.concat(hidden_states[:steps], 0), g.concat(hidden_states[:steps - 1:-1], 0)
    g.output(g.concat([forward, back], -1))
    logits = g.input("logits", "bf16", steps * batch, classes).f32()
    g.output((logits - dag.logsumexp(logits)).bf16())


def pooled(g, x):
    """Maximum of 2 by 2 pixels of [batch, height, width, channels]."""
    rows = g.maximum(x.slice(1, 0, x.dims[1], 2), x.slice(1, 1, x.dims[1], 2))
    return g.maximum(rows.slice(2, 0, rows.dims[2], 2), rows.slice(2, 1, rows.dims[2], 2))


# ---------------------------------------------------------------- Llama, AdamW


@graph(full=dict(tokens=64, layers=8, hidden=4096, heads=32, kv_heads=8, dim=128, ffn=14336),
       reduced=dict(tokens=3, layers=4, hidden=37, heads=4, kv_heads=2, dim=6, ffn=19),
       cos=("uniform", -1.0, 1.0), sin=("uniform", -1.0, 1.0))
def llama_layer_glue(g, tokens, layers, hidden, heads, kv_heads, dim, ffn):
    """The ops between the products of decoder layers: norms, q and k norms, rotations, swiglu, residuals."""
    stream = g.input("x", "bf16", tokens, hidden).f32()
    cos, sin = (g.input(name, "f32", tokens, dim // 2) for name in ("cos", "sin"))
    for n in range(layers):
        g.output(dag.rmsnorm(stream, g.weight(f"{n}.attention.gamma", hidden), 1e-5).bf16())
        for part, count in (("q", heads), ("k", kv_heads)):
            t = g.input(f"{n}.{part}", "bf16", tokens, count, dim).f32()
            g.output(rotated(g, dag.rmsnorm(t, g.weight(f"{n}.{part}.gamma", dim), 1e-6), cos, sin).bf16())
        stream = (stream + g.input(f"{n}.attended", "bf16", tokens, hidden).f32()).bf16().f32()
        g.output(dag.rmsnorm(stream, g.weight(f"{n}.ffn.gamma", hidden), 1e-5).bf16())
        gate, up = g.input(f"{n}.gate_up", "bf16", tokens, 2 * ffn).split(2)
        g.output((dag.silu(gate.f32()) * up.f32()).bf16())
        stream = (stream + g.input(f"{n}.fed", "bf16", tokens, hidden).f32()).bf16().f32()
    g.output(stream.bf16())


def bert_tensor_sizes(layers, hidden, ffn):
    """Sizes of 12 tensors a layer: three attention biases and weights, two norms, the feed-forward pair."""
    return layers * [hidden * 3 * hidden, 3 * hidden, hidden * hidden, hidden, hidden, hidden, hidden * ffn, ffn,
                     ffn * hidden, hidden, hidden, hidden]


@graph(full=dict(layers=5, hidden=768, ffn=3072), reduced=dict(layers=5, hidden=3, ffn=7))
def adamw_60_tensors(g, layers, hidden, ffn):
    """One optimiser step over 60 tensors of very different sizes, in place."""
    lr, c1, c2 = (g.input(name, "f32", 1) for name in ("lr", "c1", "c2"))
    for i, n in enumerate(bert_tensor_sizes(layers, hidden, ffn)):
        w, m, v = (g.input(f"{name}{i}", "f32", n) for name in "wmv")
        grad = g.input(f"g{i}", "bf16", n).f32()
        m_next, v_next, w_next = adam_step(g, w, m, v, grad, lr, c1, c2)
        for value, old in ((m_next, m), (v_next, v), (w_next, w)):
            g.output(value, alias=old)
        g.output(w_next.bf16())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder for NAME.json")
    parser.add_argument("--size", choices=("full", "reduced"), default="full")
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    for name, problem in LARGE.items():
        with open(os.path.join(arguments.out, name + ".json"), "w", encoding="utf-8") as file:
            file.write(dag.to_text(problem.graph(arguments.size)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
