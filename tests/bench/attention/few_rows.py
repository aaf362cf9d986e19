"""Attention of few rows over a cache of keys, as decoding and speculation have it, compared with every backend of PyTorch's
scaled_dot_product_attention. Listed sizes and drawn ones; keys and values that no cache holds; plans by prediction and by measuring eleven
candidates; implementations interleaved. Needs a GPU, PyTorch and the package `sinter`.

    python3 few_rows.py [--drawn N] [--seed SEED] --out FILE
"""

import argparse
import math
import os
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor

import sinter
import torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
import rows_file  # noqa: E402
import turns  # noqa: E402
from attention import BACKENDS, error, random  # noqa: E402
from drawn import place  # noqa: E402

# batch, heads, heads of keys, rows, keys, width, what is done to scores
LISTED = (
    (1, 32, 8, 1, 1024, 128, ""), (1, 32, 8, 1, 4096, 128, ""), (8, 32, 8, 1, 1024, 128, ""), (16, 32, 8, 1, 1024, 128, ""),
    (8, 32, 8, 1, 4096, 128, ""), (8, 32, 8, 1, 16384, 128, ""), (32, 32, 8, 1, 1024, 128, ""), (32, 32, 8, 1, 1024, 128, "mask"),
    (1, 32, 8, 1, 1024, 128, "mask"), (1, 32, 8, 4, 4096, 128, ""), (8, 32, 8, 8, 4096, 128, ""), (64, 16, 16, 1, 1024, 64, ""),
    (1, 28, 4, 1, 4096, 128, "mask"), (4, 64, 8, 1, 8192, 128, ""), (1, 32, 32, 1, 2048, 128, ""), (2, 12, 12, 1, 512, 64, "mask"),
)
HEADS = ((32, 8, 128), (28, 4, 128), (64, 8, 128), (40, 8, 128), (12, 2, 128), (16, 8, 128), (32, 32, 128), (24, 8, 128), (32, 8, 64),
         (14, 2, 64), (16, 16, 64), (12, 12, 64), (8, 1, 128), (32, 32, 96), (16, 16, 80))
CACHES = 150e6  # bytes of the copies that calls take in turns


def case_of(seed, index):
    """A case that only the seed decides: batch, rows and keys each octave as likely as the next."""
    def between(what, low, high):
        return round(2 ** (math.log2(low) + place(seed, f"{what} of {index}") * math.log2(high / low)))
    heads, kv_heads, width = HEADS[int(place(seed, f"heads of {index}") * len(HEADS))]
    rows = 1 if place(seed, f"one row of {index}") < 0.7 else between("rows", 2, 8)
    term = "mask" if place(seed, f"term of {index}") < 0.5 else ""
    keys = between("keys", 64, 16384)
    batch = between("batch", 1, min(64, max(1, 2**22 // (keys * kv_heads))))
    return batch, heads, kv_heads, rows, keys, width, term


def chain_of(batch, heads, kv_heads, rows, keys, width, term):
    b = sinter.Builder()
    q = b.input("bf16", (batch, rows, heads, width), name="q").transpose(0, 2, 1, 3)

    def shared(name):
        kept = b.input("bf16", (batch, kv_heads, keys, width), name=name)
        if kv_heads == heads:
            return kept
        group = heads // kv_heads
        return kept.reshape(batch, kv_heads, 1, keys, width).broadcast_to((batch, kv_heads, group, keys, width)).reshape(batch, heads, keys, width)
    k, v = shared("k"), shared("v")
    mask = b.input("bool", (batch, 1, 1, keys), name="mask") if term == "mask" else None
    out = sinter.attention(q, k, v, mask=mask).cast("bf16")
    return b.finish(out.transpose(0, 2, 1, 3).reshape(batch, rows, heads * width))


def schedule_of(plan):
    return next((line[line.index("warpgroups"):].strip() for line in plan.explain().splitlines() if "warpgroups" in line), "")


def measure(context, chain, plan, case):
    batch, heads, kv_heads, rows, keys, width, term = case
    size = 4 * batch * kv_heads * keys * width
    copies = min(16, 1 + int(CACHES // size))
    q = random(batch, rows, heads, width)
    turned = q.transpose(1, 2)
    caches = [(random(batch, kv_heads, keys, width), random(batch, kv_heads, keys, width)) for _ in range(copies)]
    mask = torch.rand(batch, 1, 1, keys, device="cuda") < 0.8 if term == "mask" else None
    if mask is not None:
        mask[..., 0] = True
    more = [] if mask is None else [mask]
    shared = heads != kv_heads
    wide = [t.float().repeat_interleave(heads // kv_heads, 1) for t in caches[0]]
    wanted = F.scaled_dot_product_attention(turned.float(), *wide, attn_mask=mask)
    del wide

    def wrong(result):
        return error(result.reshape(batch, rows, heads, width).transpose(1, 2), wanted)

    def backend(of, k, v):
        def call():
            with sdpa_kernel(of):
                return F.scaled_dot_product_attention(turned, k, v, attn_mask=mask, enable_gqa=shared)
        return call

    def ours(of, k, v):
        return lambda: of(q, k, v, *more)
    measured = context.prepare(chain, measure=11)
    contestants = {"sinter": [ours(plan, *kv) for kv in caches], "measured": [ours(measured, *kv) for kv in caches]}
    contestants.update({name: [backend(of, *kv) for kv in caches] for name, of in BACKENDS.items()})
    us = turns.in_turns(torch, contestants)
    others = [name for name in us if name in BACKENDS]
    best = min(others, key=us.get)
    return dict(case=list(case), us=us, best=best, best_over_sinter=round(us[best] / us["sinter"], 3),
                bytes_us=round(size / 4.55e6, 2), predicted_us=round(plan.predicted_us, 2), error=wrong(plan(q, *caches[0], *more)),
                measured_error=wrong(measured(q, *caches[0], *more)), plan=schedule_of(plan), measured_plan=schedule_of(measured))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drawn", type=int, default=0, help="cases that the seed draws, besides the listed ones")
    parser.add_argument("--seed", default="few rows")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    torch.manual_seed(0)
    cases = list(LISTED) + [case_of(options.seed, i) for i in range(options.drawn)]
    context = sinter.Context()
    chains = [chain_of(*case) for case in cases]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        plans = list(pool.map(lambda chain: context.prepare(chain), chains))
    document = {"machine": turns.machine(torch), "seed": options.seed, "rows": []}
    for case, chain, plan in zip(cases, chains, plans):
        row = measure(context, chain, plan, case)
        document["rows"].append(row)
        rows_file.write(options.out, document)
        print(case, row["us"], row["best_over_sinter"], row["predicted_us"], row["error"], row["plan"], flush=True)
    ratios = [row["best_over_sinter"] for row in document["rows"]]
    print("best_over_sinter mean", round(statistics.geometric_mean(ratios), 3), "least", min(ratios))


if __name__ == "__main__":
    main()
