#!/usr/bin/env python3
"""Times convolution chains of a problem list in PyTorch: eager convolutions, ReLU, convolution in one CUDA graph.

Usage: conv_peers.py LIST OUT.json. Inputs are bf16 in channels_last memory; x, weights and outputs rotate over more than 240 MB, so
that they come from HBM. Each chain is measured with cuDNN's heuristics and with its benchmark mode; microseconds are a chain's.
"""

import json
import sys

import torch
import torch.nn.functional as F

ROTATED = 240e6
REPLAYS = 9


def problems(path):
    for line in open(path, encoding="utf-8"):
        words = line.split("#")[0].split()
        if len(words) > 2 and words[1] == "conv_chain":
            keys = dict(word.split("=") for word in words[2:])
            yield words[0], {key: int(value) for key, value in keys.items() if value.isdigit()}


def tensors(p):
    def make(*shape):
        return (torch.randn(*shape, device="cuda") * 0.1).bfloat16().to(memory_format=torch.channels_last)
    return make(p["b"], p["ic"], p["h"], p["w"]), make(p["oc1"], p["ic"], p["k1"], p["k1"]), make(
        p["oc2"], p["oc1"], p["k2"], p["k2"])


def chain(x, w1, w2):
    return F.conv2d(F.relu(F.conv2d(x, w1, padding=w1.shape[2] // 2)), w2, padding=w2.shape[2] // 2)


def time_us(p):
    first = tensors(p)
    out = chain(*first)
    size = 2 * sum(t.numel() for t in (*first, out))
    sets = [first] + [tensors(p) for _ in range(int(ROTATED / size))]
    for _ in range(3):
        chain(*first)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [chain(*s) for s in sets]
    times = []
    for _ in range(REPLAYS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / len(kept))
    return sorted(times)[REPLAYS // 2]


def main(argv):
    rows = []
    for name, p in problems(argv[1]):
        row = {"id": name, "batch": p["b"]}
        for mode, benchmark in (("heuristics_us", False), ("benchmark_us", True)):
            torch.backends.cudnn.benchmark = benchmark
            row[mode] = time_us(p)
            torch.cuda.empty_cache()
        rows.append(row)
        print(row, flush=True)
    with open(argv[2], "w", encoding="utf-8") as file:
        json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main(sys.argv)
