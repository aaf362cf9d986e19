"""Products of real layers at random numbers of rows: the plan by prediction, the plan by measuring, and cuBLAS (F.linear).

usage: measured_rows.py OUT.json [SEED [SECONDS]]   SEED: hexadecimal; seven products at 257 rows come first, then rows drawn log-uniformly.
Times are in microseconds, medians of nine interleaved rounds, of CUDA graphs over weights and rows that no cache holds.
"""

import json
import random
import statistics
import sys
import time

import sinter
import source_state
import torch
import torch.nn.functional as F

CANDIDATES, ROUNDS, DRAWN = 11, 9, 60
COLD_BYTES = 240e6
LAYERS = (  # name, bias, n, k
    ("qwen2.5_7b_qkv", True, 4608, 3584),
    ("phi2_down", True, 2560, 10240),
    ("starcoder2_up", True, 12288, 3072),
    ("vit_l_o", True, 1024, 1024),
    ("vit_h_up", True, 5120, 1280),
    ("llama_8b_o", False, 4096, 4096),
    ("gemma_down", False, 2304, 9216),
)


def values(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.05


def timer(calls):
    """A function that times one replay of a graph of `calls`: microseconds of a call."""
    count = max(16, len(calls))
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(count):
                calls[i % len(calls)]()
    graph.replay()
    torch.cuda.synchronize()

    def once():
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / count

    return once


def row_of(context, layer, m):
    name, has_bias, n, k = layer
    sets = max(1, min(8, int(COLD_BYTES / (2 * (n * k + m * k + m * n))) + 1))
    weights, rows = [values(n, k) for _ in range(sets)], [values(m, k) for _ in range(sets)]
    bias = values(n) if has_bias else None
    line = f"matmul m=M n={n} k={k}" + (" bias1=1" if has_bias else "")
    began = time.monotonic()
    plans = [context.prepare(line, m=m), context.prepare(line, m=m, measure=CANDIDATES)]
    took = time.monotonic() - began
    ours = [lambda x, w, plan=plan: plan(x, w, bias) if has_bias else plan(x, w) for plan in plans]
    calls = [*ours, lambda x, w: F.linear(x, w, bias)]
    exact = F.linear(rows[0].float(), weights[0].float(), bias.float() if has_bias else None)
    error = max(((call(rows[0], weights[0]).float() - exact).norm() / exact.norm()).item() for call in calls)
    timers = [timer([lambda x=x, w=w, call=call: call(x, w) for x, w in zip(rows, weights)]) for call in calls]
    turns = [[once() for once in timers] for _ in range(ROUNDS)]
    predicted, measured, cublas = (round(statistics.median(column), 2) for column in zip(*turns))
    return dict(
        layer=name, M=m, bucket=plans[0].bucket, predicted=predicted, measured=measured, cublas=cublas,
        took_s=round(took, 1), same=plans[0].digest == plans[1].digest, err=error,
    )  # fmt: skip


def main(out, seed="0", seconds="1e9"):
    torch.manual_seed(0)
    draw = random.Random(int(seed, 16))
    cases = [(257, layer) for layer in LAYERS]
    cases += [(int(round(2 ** draw.uniform(0, 13))), LAYERS[draw.randrange(len(LAYERS))]) for _ in range(DRAWN)]
    results = {
        "machine": {"gpu": torch.cuda.get_device_name()},
        **source_state.of_library(),
        "torch": torch.__version__,
        "seed": seed,
        "candidates": CANDIDATES,
        "rows": [],
    }
    until = time.monotonic() + float(seconds)
    with sinter.Context() as context:
        for m, layer in cases:
            if time.monotonic() > until:
                break
            results["rows"].append(row_of(context, layer, m))
            print(json.dumps(results["rows"][-1]), flush=True)
            with open(out, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
