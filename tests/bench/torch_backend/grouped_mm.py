#!/usr/bin/env python3
"""Only PyTorch's grouped products on one GPU, in CUDA graphs, weights from memory: the data that the gate's estimate of them is fitted to.

    python3 tests/bench/torch_backend/grouped_mm.py OUT.tsv

A line a product: matrices, rows in all, K, columns, and microseconds. Rows meet matrices by chance, as after a router of random weights.
"""

import pathlib
import statistics
import sys

#: Model: matrices, (columns, K) of both products, rows in all.
CASES = {
    "mixtral": (8, ((28672, 4096), (4096, 14336)), (64, 256, 1024, 8192)),
    "qwen3_moe": (128, ((1536, 2048), (2048, 768)), (64, 512, 4096, 16384)),
    "gpt_oss_20b": (32, ((5760, 2880), (2880, 2880)), (64, 512, 2048, 16384)),
    "deepseek_v3_small": (16, ((1024, 2048), (2048, 512)), (64, 512, 4096, 16384)),
}
WEIGHTS = 240 << 20  # bytes that are read in turns, so that none are in the L2 cache
ROUNDS = 5


def main():
    import torch

    lines = [f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}", "# model\tmatrices\trows\tk\tcolumns\tus"]
    generator = torch.Generator("cuda").manual_seed(1)
    for model, (matrices, products, sizes) in CASES.items():
        for columns, k in products:
            copies = max(1, -(-WEIGHTS // (2 * matrices * columns * k)))
            weights = [torch.randn(matrices, columns, k, dtype=torch.bfloat16, device="cuda", generator=generator) for _ in range(copies)]
            for rows in sizes:
                x = torch.randn(rows, k, dtype=torch.bfloat16, device="cuda", generator=generator)
                ids = torch.randint(matrices, (rows,), device="cuda", generator=generator)
                ends = torch.bincount(ids, minlength=matrices).cumsum(0).int()
                us = timed(torch, lambda: [torch._grouped_mm(x, w.transpose(1, 2), offs=ends) for w in weights]) / copies
                lines.append(f"{model}\t{matrices}\t{rows}\t{k}\t{columns}\t{us:.1f}")
                print(lines[-1], flush=True)
            del weights
            torch.cuda.empty_cache()
    pathlib.Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


def timed(torch, call):
    """Median microseconds of a replay of a graph of `call`."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()
    del kept
    replays, times = 3, []
    for _ in range(ROUNDS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / replays)
    return statistics.median(times)


if __name__ == "__main__":
    main()
