#!/usr/bin/env python3
"""Writes FFN layers of 8-bit weights as chains: norm, quantise, gated product, quantise, product, residual.

Usage: scaled_layers.py FOLDER [M ...]. One JSON file a model and number of rows, for sinter_bench --graphs. Scales are one of a row
and one of a channel. FOLDER is made where it is not there.
"""

import json
import os
import random
import sys
from typing import NamedTuple


class Sizes(NamedTuple):
    """A layer's sizes: its width, the width between the products, whether it has a gate, and the rows that only it has."""

    k: int
    n: int
    gated: bool = True
    m: int = 0


MODELS = {
    "llama3_8b": Sizes(4096, 14336),
    "llama3_70b_tp8": Sizes(8192, 3584),
    "qwen3_32b_tp4": Sizes(5120, 6400),
    "deepseek_v3_shared": Sizes(7168, 2048),
}
LISTS = {  # FlashFuser's gated FFNs and chains of products, at its 128 rows
    **{f"S{i}": Sizes(k, n, True, 128) for i, (k, n) in enumerate(
        [(3072, 8192), (2048, 5632), (4096, 11008), (2048, 8192), (2048, 11008), (1536, 8960), (2560, 9728), (1024, 3072)], 1)},
    **{f"G{i}": Sizes(k, n, False, 128) for i, (k, n) in enumerate(
        [(768, 3072), (4096, 16384), (1024, 4096), (768, 768), (2048, 8192), (512, 2048), (384, 1536)], 4)},
}


def random_layers(count=40, seed=2026):
    """Widths in steps of 128 from 512 to 8192, rows from 1 to 2048, each octave as likely as another."""
    source, found = random.Random(seed), {}
    octave = lambda low, high, step: (lambda base: base + step * source.randrange(base // step + 1))(1 << source.randrange(low, high))
    for i in range(1, count + 1):
        k, n = octave(9, 13, 128), octave(9, 13, 128)
        found[f"R{i}"] = Sizes(k, n, source.random() < 0.5, octave(0, 11, 1))
    return found


LAYERS = {**MODELS, **LISTS, **random_layers()}
ROWS = (1, 8, 16, 32, 64, 128, 256, 512, 1024)
LARGEST, EPS = 448.0, 1e-10


class Chain:
    def __init__(self):
        self.inputs, self.ops = [], []

    def _number(self):
        return len(self.inputs) + len(self.ops)

    def input(self, name, dtype, dims, constant=False):
        assert not self.ops
        self.inputs.append({"id": self._number(), "name": name, "dtype": dtype, "dims": dims, "constant": constant})
        return self.inputs[-1]["id"]

    def op(self, op, operands, dtype, dims, **more):
        self.ops.append({"id": self._number(), "op": op, "in": operands, "dtype": dtype, "dims": dims, **more})
        if not operands:
            del self.ops[-1]["in"]
        return self.ops[-1]["id"]

    def scalar(self, value):
        return self.op("scalar", [], "f32", [], value=value)

    def binary(self, kind, x, y, dims):
        return self.op("binary", [x, y], "f32", dims, kind=kind)

    def unary(self, kind, x, dims):
        return self.op("unary", [x], "f32", dims, kind=kind)

    def text(self, value):
        return json.dumps({"schema": 1, "inputs": self.inputs, "ops": self.ops, "outputs": [{"value": value}]}, indent=1)


def rms_norm(c, x, gamma, dims, column):
    square = c.binary("mul", x, x, dims)
    mean = c.op("reduce", [square], "f32", column, kind="mean", axes=[1], keepdims=True)
    rate = c.unary("rsqrt", c.binary("add", mean, c.scalar(1e-5), column), column)
    scaled = c.binary("mul", x, c.op("broadcast", [rate], "f32", dims), dims)
    wide = c.op("cast", [gamma], "f32", dims[1:])
    return c.binary("mul", scaled, c.op("broadcast", [wide], "f32", dims), dims)


def quantize(c, x, dims, column):
    largest = c.op("reduce", [c.unary("abs", x, dims)], "f32", column, kind="max", axes=[1], keepdims=True)
    largest = c.binary("max", largest, c.scalar(EPS), column)
    most = c.scalar(LARGEST)
    inverse = c.op("broadcast", [c.binary("div", most, largest, column)], "f32", dims)
    codes = c.op("cast", [c.binary("mul", x, inverse, dims)], "e4m3", dims)
    return codes, c.binary("div", largest, most, column)


def layer(m, k, n):
    c = Chain()
    x = c.input("x", "bf16", [m, k])
    gamma = c.input("gamma", "bf16", [k], True)
    weights = {}
    for name, shape in (("gate", [n, k]), ("up", [n, k]), ("down", [k, n])):
        weights[name] = (c.input("w_" + name, "e4m3", shape, True), c.input("scale_" + name, "f32", [shape[0], 1], True))
    wide, narrow, column = [m, k], [m, n], [m, 1]
    x32 = c.op("cast", [x], "f32", wide)
    a, scale = quantize(c, rms_norm(c, x32, gamma, wide, column), wide, column)
    gate, up = (c.op("scaled_matmul", [a, weights[w][0], scale, weights[w][1]], "f32", narrow) for w in ("gate", "up"))
    silu = c.binary("mul", gate, c.unary("sigmoid", gate, narrow), narrow)
    codes, middle = quantize(c, c.binary("mul", silu, up, narrow), narrow, column)
    down = c.op("scaled_matmul", [codes, weights["down"][0], middle, weights["down"][1]], "f32", wide)
    total = c.binary("add", down, x32, wide)
    return c.text(c.op("cast", [total], "bf16", wide))


def main(argv):
    os.makedirs(argv[1], exist_ok=True)
    for name, (k, n, *_) in MODELS.items():
        for m in [int(word) for word in argv[2:]] or ROWS:
            with open(os.path.join(argv[1], f"{name}_m{m:04}.json"), "w", encoding="utf-8") as file:
                file.write(layer(m, k, n) + "\n")


if __name__ == "__main__":
    main(sys.argv)
