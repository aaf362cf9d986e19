#!/usr/bin/env python3
"""The memory-intensive graphs of problems/stitch_graphs.txt: each as a DAG and as NumPy formulas written without it.

    graphs.py --out tests/bench/problems/stitch     writes NAME.json at full size
    graphs.py --out DIR --size reduced --only adam  one of them, small and ragged

A graph is a function that adds to a Dag; its oracle takes the inputs as float64 arrays and returns the outputs unrounded.
Both get the sizes by name. `draws` says how to draw inputs that need other values than their dtype's usual ones.
"""

import argparse
import math
import os
import sys

import dag
from dag import Dag

PROBLEMS = {}  # name: Problem, in the order of the list


class Problem:
    def __init__(self, build, full, reduced, draws):
        self.name, self.build, self.full, self.reduced, self.draws = build.__name__, build, full, reduced, draws
        self.oracle = None

    def sizes(self, size):
        return self.full if size == "full" else self.reduced

    def graph(self, size="full"):
        g = Dag()
        self.build(g, **self.sizes(size))
        return g.to_dict()


def graph(full, reduced, **draws):
    """Registers a graph. `draws`: input name to ("uniform", low, high), ("choice", values) or ("below", n)."""

    def register(build):
        problem = Problem(build, full, reduced, draws)
        PROBLEMS[problem.name] = problem
        return build

    return register


def oracle(function):
    """Registers NAME_oracle as the oracle of NAME."""
    PROBLEMS[function.__name__[: -len("_oracle")]].oracle = function
    return function


# ---------------------------------------------------------------- formulas that oracles share


def np_erf(x):
    import numpy
    return numpy.vectorize(math.erf)(x)


def np_sigmoid(x):
    import numpy
    return 1 / (1 + numpy.exp(-x))


def np_layernorm(x, gamma, beta, eps):
    import numpy
    return (x - x.mean(-1, keepdims=True)) / numpy.sqrt(x.var(-1, keepdims=True) + eps) * gamma + beta


def np_softmax(x):
    import numpy
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def np_logsumexp(x):
    import numpy
    most = x.max(-1, keepdims=True)
    return most + numpy.log(numpy.exp(x - most).sum(-1, keepdims=True))


# ---------------------------------------------------------------- BERT


@graph(full=dict(rows=4096, cols=768), reduced=dict(rows=5, cols=37))
def bert_embed_ln(g, rows, cols):
    e1, e2, e3 = (g.input(f"e{i}", "bf16", rows, cols).f32() for i in (1, 2, 3))
    gamma, beta = g.weight("gamma", cols), g.weight("beta", cols)
    g.output(dag.layernorm(e1 + e2 + e3, gamma, beta, 1e-12).bf16())


@oracle
def bert_embed_ln_oracle(v, **_):
    return [np_layernorm(v["e1"] + v["e2"] + v["e3"], v["gamma"], v["beta"], 1e-12)]


@graph(full=dict(batch=32, heads=12, length=128), reduced=dict(batch=2, heads=3, length=13),
       mask=("choice", (0.0, -10000.0)))
def bert_attn_softmax(g, batch, heads, length):
    t = g.input("t", "bf16", batch, heads, length, length).f32()
    mask = g.input("mask", "bf16", batch, 1, 1, length).f32()
    g.output(dag.softmax(0.125 * t + mask).bf16())


@oracle
def bert_attn_softmax_oracle(v, **_):
    return [np_softmax(v["t"] / 8 + v["mask"])]


@graph(full=dict(rows=4096, cols=3072), reduced=dict(rows=7, cols=45))
def bert_ffn_mid(g, rows, cols):
    x, b = g.input("x", "bf16", rows, cols), g.weight("b", cols)
    g.output(dag.gelu_erf(x.f32() + b.f32()).bf16())


@oracle
def bert_ffn_mid_oracle(v, **_):
    z = v["x"] + v["b"]
    return [z * (1 + np_erf(z / math.sqrt(2))) / 2]


@graph(full=dict(rows=4096, cols=768), reduced=dict(rows=6, cols=41))
def bert_ffn_out(g, rows, cols):
    x, r = (g.input(name, "bf16", rows, cols).f32() for name in "xr")
    b, gamma, beta = (g.weight(name, cols) for name in ("b", "gamma", "beta"))
    g.output(dag.layernorm(x + b.f32() + r, gamma, beta, 1e-12).bf16())


@oracle
def bert_ffn_out_oracle(v, **_):
    return [np_layernorm(v["x"] + v["b"] + v["r"], v["gamma"], v["beta"], 1e-12)]


# ---------------------------------------------------------------- backward forms


def layernorm_backward(g, dy, x, mean, rstd, gamma):
    """dx, dgamma and dbeta of a layer norm over the last of two axes, from f32 values."""
    normal = (x - mean) * rstd
    scaled = dy * gamma
    dx = rstd * (scaled - scaled.mean(-1) - normal * (scaled * normal).mean(-1))
    return dx, (dy * normal).sum(0, keep=False), dy.sum(0, keep=False)


@graph(full=dict(rows=8192, cols=1024), reduced=dict(rows=9, cols=37), mean=("uniform", -0.1, 0.1),
       rstd=("uniform", 0.8, 1.2))
def ln_backward(g, rows, cols):
    dy, x = (g.input(name, "bf16", rows, cols).f32() for name in ("dy", "x"))
    mean, rstd = (g.input(name, "f32", rows, 1) for name in ("mean", "rstd"))
    gamma = g.weight("gamma", cols).f32()
    dx, dgamma, dbeta = layernorm_backward(g, dy, x, mean, rstd, gamma)
    g.output(dx.bf16())
    g.output(dgamma)
    g.output(dbeta)


@oracle
def ln_backward_oracle(v, **_):
    xh, gy = (v["x"] - v["mean"]) * v["rstd"], v["dy"] * v["gamma"]
    mean = lambda a: a.mean(-1, keepdims=True)
    dx = v["rstd"] * (gy - mean(gy) - xh * mean(gy * xh))
    return [dx, (v["dy"] * xh).sum(0), v["dy"].sum(0)]


@graph(full=dict(rows=16384, cols=1024), reduced=dict(rows=5, cols=37), y=("uniform", 0.0, 1.0))
def softmax_backward(g, rows, cols):
    dy, y = (g.input(name, "bf16", rows, cols).f32() for name in ("dy", "y"))
    g.output((y * (dy - (dy * y).sum(-1))).bf16())


@oracle
def softmax_backward_oracle(v, **_):
    return [v["y"] * (v["dy"] - (v["dy"] * v["y"]).sum(-1, keepdims=True))]


def gelu_erf_derivative(z):
    """Phi(z) + z phi(z)."""
    cdf = 0.5 * (1 + (math.sqrt(0.5) * z).unary("erf"))
    density = math.sqrt(0.5 / math.pi) * (-0.5 * z.unary("square")).unary("exp")
    return cdf + z * density


@graph(full=dict(rows=8192, cols=4096), reduced=dict(rows=11, cols=37))
def gelu_backward(g, rows, cols):
    dy, x = (g.input(name, "bf16", rows, cols).f32() for name in ("dy", "x"))
    dx = dy * gelu_erf_derivative(x + g.weight("b", cols).f32())
    g.output(dx.bf16())
    g.output(dx.sum(0, keep=False))


@oracle
def gelu_backward_oracle(v, **_):
    import numpy
    z = v["x"] + v["b"]
    slope = (1 + np_erf(z / math.sqrt(2))) / 2 + z * numpy.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return [v["dy"] * slope, (v["dy"] * slope).sum(0)]


@graph(full=dict(rows=4096, cols=32000), reduced=dict(rows=6, cols=53), t=("below", "cols"))
def transformer_xent(g, rows, cols):
    logits = g.input("logits", "bf16", rows, cols).f32()
    t, dloss = g.input("t", "s32", rows), g.input("dloss", "f32", rows)
    hit = g.compare("eq", g.iota("s32", 1, rows, cols), t.reshape(rows, 1))
    lse = dag.logsumexp(logits)
    picked = g.select(hit, logits, g.scalar(0)).sum(-1)
    g.output((lse - picked).reshape(rows))
    dlogits = ((logits - lse).unary("exp") - hit.f32()) * dloss.reshape(rows, 1)
    g.output(dlogits.bf16())


@oracle
def transformer_xent_oracle(v, rows, cols):
    import numpy
    lse, row = np_logsumexp(v["logits"]), numpy.arange(rows)
    target = v["t"].astype(int)
    loss = lse[:, 0] - v["logits"][row, target]
    slope = numpy.exp(v["logits"] - lse)
    slope[row, target] -= 1
    return [loss, slope * v["dloss"][:, None]]


ADAM = dict(b1=0.9, b2=0.999, eps=1e-8, wd=0.01)


def adam_step(g, w, m, v, grad, lr, c1, c2):
    """m', v', w' in f32; lr, c1 and c2 have one element."""
    m_next = ADAM["b1"] * m + (1 - ADAM["b1"]) * grad
    v_next = ADAM["b2"] * v + (1 - ADAM["b2"]) * grad * grad
    step = m_next * c1 / ((v_next * c2).unary("sqrt") + ADAM["eps"])
    return m_next, v_next, w - lr * (step + ADAM["wd"] * w)


@graph(full=dict(n=25000000), reduced=dict(n=1003), v=("uniform", 0.0, 0.1), lr=("uniform", 1e-3, 2e-3),
       c1=("uniform", 1.0, 10.0), c2=("uniform", 1.0, 10.0))
def adam(g, n):
    w, m, v = (g.input(name, "f32", n) for name in "wmv")
    grad = g.input("g", "bf16", n).f32()
    lr, c1, c2 = (g.input(name, "f32", 1) for name in ("lr", "c1", "c2"))
    m_next, v_next, w_next = adam_step(g, w, m, v, grad, lr, c1, c2)
    g.output(m_next, alias=m)
    g.output(v_next, alias=v)
    g.output(w_next, alias=w)
    g.output(w_next.bf16())


@oracle
def adam_oracle(i, **_):
    import numpy
    # The graph's constants are f32.
    one_b1, one_b2, b1, b2, eps, wd = (float(numpy.float32(c)) for c in (1 - 0.9, 1 - 0.999, 0.9, 0.999, 1e-8, 0.01))
    m = b1 * i["m"] + one_b1 * i["g"]
    v = b2 * i["v"] + one_b2 * i["g"] ** 2
    w = i["w"] - i["lr"] * (m * i["c1"] / (numpy.sqrt(v * i["c2"]) + eps) + wd * i["w"])
    return [m, v, w, w]


# ---------------------------------------------------------------- recurrent cells and DIEN


def gru_gates(g, xg, hg):
    """r, z and n of a GRU from its two products' results."""
    x0, x1, x2 = xg.split(3)
    h0, h1, h2 = hg.split(3)
    r = dag.sigmoid(x0 + h0)
    return r, dag.sigmoid(x1 + h1), dag.tanh(x2 + r * h2)


@graph(full=dict(rows=256, hidden=36), reduced=dict(rows=3, hidden=5))
def dien_gru_cell(g, rows, hidden):
    xg, hg = (g.input(name, "bf16", rows, 3 * hidden).f32() for name in ("xg", "hg"))
    h = g.input("h", "bf16", rows, hidden).f32()
    _, z, n = gru_gates(g, xg, hg)
    g.output(((1 - z) * n + z * h).bf16())


def np_gru_gates(v, hidden):
    import numpy
    part = lambda a, i: a[:, i * hidden:(i + 1) * hidden]
    r = np_sigmoid(part(v["xg"], 0) + part(v["hg"], 0))
    return np_sigmoid(part(v["xg"], 1) + part(v["hg"], 1)), numpy.tanh(part(v["xg"], 2) + r * part(v["hg"], 2))


@oracle
def dien_gru_cell_oracle(v, rows, hidden):
    z, n = np_gru_gates(v, hidden)
    return [(1 - z) * n + z * v["h"]]


@graph(full=dict(rows=256, hidden=36), reduced=dict(rows=3, hidden=5), a=("uniform", 0.0, 1.0))
def dien_augru_cell(g, rows, hidden):
    xg, hg = (g.input(name, "bf16", rows, 3 * hidden).f32() for name in ("xg", "hg"))
    h, a = g.input("h", "bf16", rows, hidden).f32(), g.input("a", "bf16", rows, 1).f32()
    _, z, n = gru_gates(g, xg, hg)
    u = (1 - a) * z
    g.output((u * h + (1 - u) * n).bf16())


@oracle
def dien_augru_cell_oracle(v, rows, hidden):
    z, n = np_gru_gates(v, hidden)
    u = z - v["a"] * z
    return [u * v["h"] + n - u * n]


@graph(full=dict(batch=256, length=100, width=36), reduced=dict(batch=3, length=7, width=5),
       mask=("choice", (0.0, -1e9)))
def dien_attention(g, batch, length, width):
    t, mask = (g.input(name, "bf16", batch, length).f32() for name in ("t", "mask"))
    v = g.input("v", "bf16", batch, length, width).f32()
    p = dag.softmax(t + mask).reshape(batch, length, 1)
    g.output((p * v).sum(1, keep=False).bf16())


@oracle
def dien_attention_oracle(v, **_):
    import numpy
    return [numpy.einsum("bl,blw->bw", np_softmax(v["t"] + v["mask"]), v["v"])]


@graph(full=dict(rows=25600, cols=200), reduced=dict(rows=17, cols=9))
def dien_dice(g, rows, cols):
    x, alpha = g.input("x", "bf16", rows, cols).f32(), g.weight("alpha", cols).f32()
    mean, variance = dag.moments(x, 0)
    p = dag.sigmoid((x - mean) * (variance + 1e-9).unary("rsqrt"))
    g.output((p * x + (1 - p) * alpha * x).bf16())


@oracle
def dien_dice_oracle(v, **_):
    import numpy
    x = v["x"]
    p = np_sigmoid((x - x.mean(0)) / numpy.sqrt(x.var(0) + 1e-9))
    return [p * x + (1 - p) * v["alpha"] * x]


def lstm_cell(g, gates, c):
    """c' and h' from f32 values; the gates' slices are i f j o."""
    i, f, j, o = gates.split(4)
    c_next = dag.sigmoid(f) * c + dag.sigmoid(i) * dag.tanh(j)
    return c_next, dag.sigmoid(o) * dag.tanh(c_next)


def np_lstm_cell(gates, c):
    import numpy
    i, f, j, o = numpy.split(gates, 4, axis=-1)
    c = np_sigmoid(f) * c + np_sigmoid(i) * numpy.tanh(j)
    return c, np_sigmoid(o) * numpy.tanh(c)


@graph(full=dict(rows=8, hidden=256), reduced=dict(rows=3, hidden=7))
def crnn_lstm_cell(g, rows, hidden):
    gates, c = g.input("g", "bf16", rows, 4 * hidden).f32(), g.input("c", "bf16", rows, hidden).f32()
    c_next, h_next = lstm_cell(g, gates, c)
    g.output(c_next.bf16())
    g.output(h_next.bf16())


@oracle
def crnn_lstm_cell_oracle(v, **_):
    return list(np_lstm_cell(v["g"], v["c"]))


@graph(full=dict(rows=208, cols=37), reduced=dict(rows=3, cols=37))
def crnn_logsoftmax(g, rows, cols):
    x = g.input("x", "bf16", rows, cols).f32()
    g.output((x - dag.logsumexp(x)).bf16())


@oracle
def crnn_logsoftmax_oracle(v, **_):
    return [v["x"] - np_logsumexp(v["x"])]


@graph(full=dict(rows=8, hidden=1024), reduced=dict(rows=3, hidden=13))
def asr_lstm_ln(g, rows, hidden):
    gates, c = g.input("g", "bf16", rows, 4 * hidden).f32(), g.input("c", "bf16", rows, hidden).f32()
    gamma, beta = g.weight("gamma", hidden), g.weight("beta", hidden)
    c_next, h_next = lstm_cell(g, gates, c)
    g.output(c_next.bf16())
    g.output(dag.layernorm(h_next, gamma, beta, 1e-5).bf16())


@oracle
def asr_lstm_ln_oracle(v, **_):
    c, h = np_lstm_cell(v["g"], v["c"])
    return [c, np_layernorm(h, v["gamma"], v["beta"], 1e-5)]


# ---------------------------------------------------------------- vision, Llama, quantisation


@graph(full=dict(rows=25088, cols=256), reduced=dict(rows=19, cols=13))
def batchnorm_train(g, rows, cols):
    x = g.input("x", "bf16", rows, cols).f32()
    gamma, beta = (g.weight(name, cols, dtype="f32") for name in ("gamma", "beta"))
    mean, variance = dag.moments(x, 0)
    g.output(mean.reshape(cols))
    g.output(variance.reshape(cols))
    g.output(((x - mean) * (variance + 1e-5).unary("rsqrt") * gamma + beta).unary("relu").bf16())


@oracle
def batchnorm_train_oracle(v, **_):
    import numpy
    x = v["x"]
    y = (x - x.mean(0)) / numpy.sqrt(x.var(0) + 1e-5) * v["gamma"] + v["beta"]
    return [x.mean(0), x.var(0), numpy.maximum(y, 0)]


@graph(full=dict(rows=64, cols=4096), reduced=dict(rows=3, cols=37))
def llama_pre_attn(g, rows, cols):
    x, r = (g.input(name, "bf16", rows, cols).f32() for name in "xr")
    h = (x + r).bf16()
    g.output(h)
    g.output(dag.rmsnorm(h.f32(), g.weight("gamma", cols), 1e-5).bf16())


@oracle
def llama_pre_attn_oracle(v, **_):
    import numpy
    from rounding import round_bf16
    h = round_bf16(v["x"] + v["r"])
    return [h, h / numpy.sqrt((h * h).mean(-1, keepdims=True) + 1e-5) * v["gamma"]]


def rotated(g, t, cos, sin):
    """t [rows, heads, dim] by angles of [rows, dim / 2]."""
    rows, half = cos.dims
    cos, sin = cos.reshape(rows, 1, half), sin.reshape(rows, 1, half)
    t1, t2 = t.split(2)
    return g.concat([t1 * cos - t2 * sin, t2 * cos + t1 * sin], -1)


@graph(full=dict(rows=64, heads=32, kv_heads=8, dim=128), reduced=dict(rows=3, heads=4, kv_heads=2, dim=6),
       cos=("uniform", -1.0, 1.0), sin=("uniform", -1.0, 1.0))
def qwen3_qknorm_rope(g, rows, heads, kv_heads, dim):
    q, k = g.input("q", "bf16", rows, heads, dim), g.input("k", "bf16", rows, kv_heads, dim)
    cos, sin = (g.input(name, "f32", rows, dim // 2) for name in ("cos", "sin"))
    gq, gk = g.weight("gq", dim), g.weight("gk", dim)
    for t, gamma in ((q, gq), (k, gk)):
        g.output(rotated(g, dag.rmsnorm(t.f32(), gamma, 1e-6), cos, sin).bf16())


@oracle
def qwen3_qknorm_rope_oracle(v, rows, heads, kv_heads, dim):
    import numpy
    turn = (v["cos"] + 1j * v["sin"])[:, None, :]

    def one(t, gamma):
        t = t / numpy.sqrt((t * t).mean(-1, keepdims=True) + 1e-6) * gamma
        z = (t[..., : dim // 2] + 1j * t[..., dim // 2:]) * turn
        return numpy.concatenate([z.real, z.imag], -1)

    return [one(v["q"], v["gq"]), one(v["k"], v["gk"])]


@graph(full=dict(rows=64, cols=14336), reduced=dict(rows=3, cols=37))
def llama_swiglu(g, rows, cols):
    gate, up = g.input("gu", "bf16", rows, 2 * cols).split(2)
    g.output((dag.silu(gate.f32()) * up.f32()).bf16())


@oracle
def llama_swiglu_oracle(v, rows, cols):
    gate, up = v["gu"][:, :cols], v["gu"][:, cols:]
    return [gate * np_sigmoid(gate) * up]


@graph(full=dict(rows=4096, cols=4096), reduced=dict(rows=5, cols=37))
def quant_fp8_rows(g, rows, cols):
    x = g.input("x", "bf16", rows, cols).f32()
    scale = g.maximum(x.unary("abs").max(-1), g.scalar(1e-12)) / 448
    g.output(scale.reshape(rows))
    g.output((x / scale).cast("e4m3"))


@oracle
def quant_fp8_rows_oracle(v, **_):
    import numpy
    scale = numpy.maximum(numpy.abs(v["x"]).max(-1), numpy.float32(1e-12)) / 448
    return [scale, v["x"] / scale[:, None]]


@graph(full=dict(rows=64, cols=262144), reduced=dict(rows=3, cols=517))
def long_row_softmax(g, rows, cols):
    g.output(dag.softmax(g.input("x", "bf16", rows, cols).f32()).bf16())


@oracle
def long_row_softmax_oracle(v, **_):
    return [np_softmax(v["x"])]


# ---------------------------------------------------------------- command line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder for NAME.json")
    parser.add_argument("--size", choices=("full", "reduced"), default="full")
    parser.add_argument("--only", default="", help="names with commas between")
    arguments = parser.parse_args()
    wanted = [name for name in arguments.only.split(",") if name]
    os.makedirs(arguments.out, exist_ok=True)
    for name, problem in PROBLEMS.items():
        if not wanted or name in wanted:
            with open(os.path.join(arguments.out, name + ".json"), "w", encoding="utf-8") as file:
                file.write(dag.to_text(problem.graph(arguments.size)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
