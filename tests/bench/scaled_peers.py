#!/usr/bin/env python3
"""Times FFN layers of 8-bit weights in PyTorch as servers run them, in one CUDA graph.

Usage: scaled_peers.py OUT.json [MODEL ...] [M ...]. A layer: norm and quantise by one compiled kernel, torch._scaled_mm of gate and up
side by side, silu * up and quantise by one compiled kernel, torch._scaled_mm, and the residual by a compiled kernel. Scales are one of
a row and one of a channel. Weights rotate over more than 240 MB, so that they come from HBM. Each layer is measured with promoted and
with fast accumulation, with the residual and without (servers add it in the next layer's norm), and both products alone. Microseconds
are a layer's.
"""

import json
import sys

import torch

from scaled_layers import MODELS, ROWS

ROTATED, REPLAYS, CALLS = 240e6, 9, 24
LARGEST, EPS = 448.0, 1e-10
E4M3 = torch.float8_e4m3fn


def quantize(x):
    scale = x.abs().amax(dim=1, keepdim=True).clamp(min=EPS) / LARGEST
    return (x / scale).clamp(-LARGEST, LARGEST).to(E4M3), scale


def norm_quantize(x, gamma):
    wide = x.float()
    return quantize(wide * torch.rsqrt((wide * wide).mean(dim=1, keepdim=True) + 1e-5) * gamma.float())


def gate_quantize(y):
    n = y.shape[1] // 2
    return quantize(torch.nn.functional.silu(y[:, :n].float()) * y[:, n:].float())


def add(x, y):
    return x + y


def compiled(f):
    """Kernels for any number of rows and these columns, as servers compile them."""
    kernel = torch.compile(f)

    def call(x, *rest):
        if x.shape[0] > 1:
            for t in (x, *(t for t in rest if t.dim() == 2)):
                torch._dynamo.maybe_mark_dynamic(t, 0)
        return kernel(x, *rest)
    return call


NORM, GATE, ADD = (compiled(f) for f in (norm_quantize, gate_quantize, add))


class Weights:
    def __init__(self, k, n):
        self.gamma = torch.rand(k, device="cuda").bfloat16() + 0.5
        self.first, self.first_scale = self.codes(2 * n, k)
        self.second, self.second_scale = self.codes(k, n)

    @staticmethod
    def codes(rows, columns):
        codes, scale = quantize(torch.randn(rows, columns, device="cuda") / columns**0.5)
        return codes.t(), scale.t().contiguous()

    def bytes(self):
        return self.first.numel() + self.second.numel()


def product(codes, scale, weights, weight_scale, fast):
    return torch._scaled_mm(codes, weights, scale_a=scale, scale_b=weight_scale, out_dtype=torch.bfloat16, use_fast_accum=fast)


def layer(x, w, fast, residual):
    codes, scale = NORM(x, w.gamma)
    middle, middle_scale = GATE(product(codes, scale, w.first, w.first_scale, fast))
    y = product(middle, middle_scale, w.second, w.second_scale, fast)
    return ADD(x, y) if residual else y


def error(x, w):
    """Of the layer against float64 of the same codes of the weights."""
    wide = x.double()
    normed = wide * torch.rsqrt((wide * wide).mean(dim=1, keepdim=True) + 1e-5) * w.gamma.double()
    both = normed @ (w.first.double() * w.first_scale.double())
    n = both.shape[1] // 2
    c = torch.nn.functional.silu(both[:, :n]) * both[:, n:]
    y = wide + c @ (w.second.double() * w.second_scale.double())
    got = layer(x, w, False, True).double()
    return ((got - y).norm() / (y - wide).norm()).item()


def time_us(calls):
    """Of one of `calls`, which are made one after the other in a graph."""
    for call in calls[:3]:
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call() for call in calls]
    times = []
    for _ in range(REPLAYS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / len(kept))
    del kept
    return sorted(times)[REPLAYS // 2]


def measure(m, sets):
    xs = [torch.randn(m, sets[0].gamma.numel(), device="cuda").bfloat16() for _ in sets]
    turns = [i % len(sets) for i in range(max(CALLS, len(sets)))]
    row = {"relative_error": error(xs[0][:64], sets[0])}
    for name, fast, residual in (("promoted_us", False, True), ("fast_us", True, True), ("promoted_no_residual_us", False, False),
                                 ("fast_no_residual_us", True, False)):
        row[name] = time_us([lambda i=i: layer(xs[i], sets[i], fast, residual) for i in turns])
    codes, scale = NORM(xs[0], sets[0].gamma)
    middle, middle_scale = quantize(torch.randn(m, sets[0].second.shape[0], device="cuda"))
    for name, fast in (("promoted", False), ("fast", True)):
        row[f"first_{name}_us"] = time_us(
            [lambda i=i: product(codes, scale, sets[i].first, sets[i].first_scale, fast) for i in turns])
        row[f"second_{name}_us"] = time_us(
            [lambda i=i: product(middle, middle_scale, sets[i].second, sets[i].second_scale, fast) for i in turns])
    row["norm_us"] = time_us([lambda i=i: NORM(xs[i], sets[i].gamma) for i in turns])
    return row


def main(argv):
    models = [word for word in argv[2:] if word in MODELS] or list(MODELS)
    rows = [int(word) for word in argv[2:] if word.isdigit()] or ROWS
    results = []
    for name in models:
        k, n = MODELS[name]
        torch._dynamo.reset()
        sets = [Weights(k, n)]
        sets += [Weights(k, n) for _ in range(int(ROTATED / sets[0].bytes()))]
        for m in rows:
            try:
                row = measure(m, sets)
            except RuntimeError as refused:
                row = {"refused": str(refused)[:300]}
            results.append({"model": name, "m": m, **row})
            print(results[-1], flush=True)
            with open(argv[1], "w", encoding="utf-8") as file:
                json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": results}, file, indent=1)
        del sets
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv)
