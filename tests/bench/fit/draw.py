"""Draws products to which the constants of the cost model are fitted, and others on which they are judged.

usage: draw.py SEED COUNT     prints a problem list for sinter_bench --rank=N

Rows are log-uniform in 9..4096. In every fourth problem they are a few beyond a multiple of 64, where a tile is nearly empty. Every other
problem has the columns and K of a layer of a real model, the rest multiples of 8 in 256..16384, each octave as likely as the next.
"""

import math
import sys

from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
import drawn  # noqa: E402

# columns and K of products of real models: attention's in and out, up, down
LAYERS = (
    (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (4608, 3584), (3584, 3584), (37888, 3584), (3584, 18944),
    (2560, 2560), (10240, 2560), (2560, 10240), (12288, 3072), (3072, 12288), (1024, 1024), (4096, 1024), (1024, 4096),
    (3072, 768), (768, 3072), (5120, 1280), (1280, 5120), (2304, 9216), (18432, 2304), (7168, 2048), (7680, 5120), (5120, 5120),
)  # fmt: skip


def octaves(seed, what, low, high):
    return 8 * round(2 ** (math.log2(low) + drawn.place(seed, what) * math.log2(high / low)) / 8)


def problem(seed, i):
    rows = max(9, min(4096, round(9 * 2 ** (drawn.place(seed, f"rows {i}") * math.log2(4096 / 9)))))
    if i % 4 == 3:
        rows = max(64, rows // 64 * 64) + 1 + int(16 * drawn.place(seed, f"beyond {i}"))
    if i % 2 == 0:
        n, k = LAYERS[int(len(LAYERS) * drawn.place(seed, f"layer {i}"))]
    else:
        n, k = octaves(seed, f"n {i}", 256, 16384), octaves(seed, f"k {i}", 256, 16384)
    bias = int(drawn.place(seed, f"bias {i}") < 0.5)
    return f"F{i} matmul m={rows} n={n} k={k} bias1={bias} layout=oi dtype=bf16"


def main(seed, count):
    print(f"# Products of seed {seed}: tests/bench/fit/draw.py {seed} {count}")
    for i in range(int(count)):
        print(problem(seed, i))


if __name__ == "__main__":
    main(*sys.argv[1:])
