#!/usr/bin/env python3
"""The published lists: the rows of each, how many of them are measured, and which baselines are measured.

    lists.py SEED PROBLEMS    writes the problem lines of gated FFNs and of two products with the numbers of rows that SEED draws

A list is the rows that a person wrote down and, in each, rows that nobody tuned on: of the same layers, with numbers of rows that the seed
draws. The seed is the first seven digits of the commit that is measured. A list that is too long for the device is drawn (`drawn.py`).
Nothing here needs a GPU, PyTorch or the library.
"""

import functools
import math
import pathlib
import sys
from dataclasses import dataclass
from typing import Callable

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
sys.path += [str(HERE / folder) for folder in ("layers", "experts", "decode", "torch_backend", "stitch", "ranks")]

import cases as layers  # noqa: E402
import conv_peers  # noqa: E402
import drawn  # noqa: E402
import experts  # noqa: E402
import graphs  # noqa: E402
import large  # noqa: E402
import models as decode  # noqa: E402
import peers as stitch  # noqa: E402
import run as torch_models  # noqa: E402
import scaled_peers  # noqa: E402
import shares  # noqa: E402
import training  # noqa: E402

RANDOM_PROBLEMS = 24
ALL = 10**6  # rows of a list whose draw has all, if there is time for them


@dataclass(frozen=True)
class List:
    """`rows`: {id: group} by the seed. `files`: {name of performance/figures.py: who has a time there, or a reason why not, by the row's id}.
    `count`: how many are drawn, 0 where no row may be left out; no published file may hold less than `least`. `name`: what is hashed of an id."""

    rows: Callable
    files: dict
    count: int = 0
    least: int = 0
    name: Callable = str

    def order(self, seed):
        """All ids, the drawn ones first; as they are written down where none may be left out."""
        return drawn.order(self.rows(seed), seed, self.name) if self.count else list(self.rows(seed))

    def wanted(self, seed, thin=1):
        """The ids that a run measures, which takes one of `thin` rows."""
        order = self.order(seed)
        return order[: max(self.least, math.ceil(min(self.count, len(order)) / thin))] if self.count else order


def problem_lines(name):
    """{id: line} of a problem list."""
    text = (HERE / "problems" / f"{name}.txt").read_text(encoding="utf-8")
    lines = [" ".join(line.split("#")[0].split()) for line in text.splitlines()]
    return {line.split()[0]: line for line in lines if line}


# ---------------------------------------------------------------- Layers, FFNs, convolutions


def layer_rows(group):
    return functools.lru_cache(maxsize=None)(lambda seed: {case.id: of for case, of in layers.listed(group, seed)})


def layer_peers(group):
    return functools.lru_cache(maxsize=None)(lambda row: layers.case(group, row).peers)


def with_rows(line, m):
    """A problem line for another number of rows, which its id says."""
    name, *words = line.split()
    return " ".join([f"{name}-m{m}", *(f"m={m}" if word.startswith("m=") else word for word in words)])


def drawn_lines(name, seed):
    """The lines of a problem list, each with a drawn number of rows."""
    return [with_rows(line, drawn.rows(seed, row)) for row, line in problem_lines(name).items()]


def ffn_rows(name):
    """A list, and each of its problems with a drawn number of rows."""
    return lambda seed: {**dict.fromkeys(problem_lines(name), "listed"), **{line.split()[0]: "drawn" for line in drawn_lines(name, seed)}}


def random_rows(seed):
    """The ids of `sinter_bench --random-problems`, whose seed is this one as a number."""
    return {f"R{i}": "random" for i in range(1, RANDOM_PROBLEMS + 1)}


def conv_rows(images):
    """Chains of convolutions with so many images each, or with a number that is drawn."""
    return lambda seed: {f"{row}@{images or drawn.rows(seed, row, 64)}": "listed" for row in problem_lines("conv_chains")}


@functools.lru_cache(maxsize=None)
def conv_peers_of(row):
    pixels = {name: keys["k1"] == keys["k2"] == 1 for name, _, keys in conv_peers.problems(HERE / "problems" / "conv_chains.txt")}
    return ("fused_relu", "benchmark", "compile", *(["linear_relu"] if pixels[row.split("@")[0]] else []))


def scaled_case(row):
    """What both kinds of scales are drawn by: a run measures them together."""
    return row.split(":")[0]


def scaled_rows(scales):
    def rows(seed):
        found = {f"{name}@{m}:{scales}": name for name in scaled_peers.MODELS for m in scaled_peers.ROWS}
        return {**found, **{f"{name}@{drawn.rows(seed, f'{name} {i}')}:{scales}": name for name in scaled_peers.MODELS for i in range(2)}}

    return rows


# ---------------------------------------------------------------- Models, experts, steps


def model_rows(seed):
    return {f"{name}@{batch}": batch for name in torch_models.NAMES for batch in ("1", "serving")}


def training_rows(seed):
    return {row: row.split("@")[0] for row in training.ROWS if ":" not in row}


def fusionstitching_rows(seed):
    """Whole models, none left out."""
    return {row: row.split("@")[0] for row in training.PAPERS}


def decode_rows(seed):
    found = {f"{name}@{rows}": name for name in decode.MODELS for rows in (1, 8, 32, 64, 128)}
    return {**found, **{f"{name}@{drawn.rows(seed, name, 128)}": name for name in decode.MODELS}}


def expert_rows(seed):
    """Groups are numbers of rows; the drawn ones are one group."""
    found = {}
    for routing in experts.ROUTINGS:
        for name in experts.MODELS:
            found.update({f"{name}@{rows}:{routing}": f"{rows} rows" for rows in experts.ROWS})
            found.setdefault(f"{name}@{drawn.rows(seed, name)}:{routing}", "drawn rows")
    return found


# ---------------------------------------------------------------- Graphs, several GPUs


def graph_rows(seed):
    """Chains of the text list, as they are and with drawn numbers of rows; and the graphs."""
    chains = problem_lines("memory_chains")
    more = {f"{row}-m{drawn.rows(seed, row)}": "drawn rows" for row in chains}
    return {**dict.fromkeys(chains, "memory_chains"), **dict.fromkeys(graphs.PROBLEMS, "stitch_graphs"), **more}


@functools.lru_cache(maxsize=None)
def graph_peers(row):
    """Max-autotune is left out of graphs that are too long for it."""
    problem = large.LARGE.get(row)
    tuned = problem is None or len(problem.graph("full")["ops"]) <= stitch.MOST_OPS_TO_TUNE
    return ("torch", *(["torch_max"] if tuned else []), "xla")


PUBLISHED_RANKS = (2, 4)  # GPUs of one host that published tables are of; each number has its lists, its step and its file
RANKS_MOST = 4096
RANKS_ROWS = (1, 16, 64, 128, 256, 1024, 4096)
SUMS_DRAWN, MODELS_DRAWN = 3, 2


def of_ranks(name, ranks):
    """The name of a list, a step or a file of so many GPUs: of two without the number."""
    return name if ranks == 2 else f"{name}-{ranks}"


def ranks_of(name):
    """The number of GPUs that a list, a step or a file of this name is about."""
    last = name.rpartition("-")[2]
    return int(last) if last.isdigit() else 2


def ranks_rows(drawn_ones, seed):
    """Numbers of rows over several GPUs, the drawn ones last."""
    return list(dict.fromkeys([*RANKS_ROWS, *(drawn.rows(seed, f"ranks {i}", RANKS_MOST) for i in range(drawn_ones))]))


def sum_rows(seed):
    return {f"{what}@{m}": what for m in ranks_rows(SUMS_DRAWN, seed) for what in ("sum", "layer")}


def ranks_model_rows(seed):
    return {f"{name} {'' if kind == 'bf16' else kind + ' '}{m}": kind
            for kind in ("bf16", "e4m3") for m in ranks_rows(MODELS_DRAWN, seed) for name in shares.MODELS}


def sum_ways(row):
    """Peers of a row of sums, or of layers."""
    what, _, m = row.partition("@")
    return shares.layer_ways(int(m)) if what == "layer" else shares.SUMS


def model_ways(row):
    return shares.layer_ways(int(row.rpartition(" ")[2]))


def always(*peers):
    return lambda row: peers


FFNS = {"products": always("cublaslt"), "ffns": always("eager", "compile")}
LISTS = {
    "models": List(model_rows, {"models": always("inductor", "max_autotune")}, 20, 8),
    "training": List(training_rows, {"training": always("inductor")}, ALL, 7),
    "fusionstitching": List(fusionstitching_rows, {"fusionstitching": always("inductor", "xla")}),
    "decode": List(decode_rows, {"decode": always("serving", "compile")}, 20, 8),
    "experts": List(expert_rows, {"experts": always("triton")}, 64, 24),
    "encoders": List(layer_rows("encoders"), {"encoders": layer_peers("encoders")}, 14, 4),
    "products": List(layer_rows("products"), {"layers": layer_peers("products")}, ALL, 60),
    "rowwise": List(layer_rows("rowwise"), {"rowwise": layer_peers("rowwise")}, 48, 16),
    "depthwise": List(layer_rows("depthwise"), {"layers": layer_peers("depthwise")}, ALL, 26),
    "images": List(layer_rows("images"), {"layers": layer_peers("images")}, ALL, 14),
    "gated_ffn": List(ffn_rows("gated_ffn"), FFNS),
    "gemm_chains": List(ffn_rows("gemm_chains"), FFNS),
    "batch_sweep": List(lambda seed: dict.fromkeys(problem_lines("batch_sweep"), "listed"), FFNS),
    "random_ffns": List(random_rows, FFNS),
    "fp8-rows": List(scaled_rows("rows"), {"fp8": always("promoted", "fast", "cublaslt")}, ALL, 10, scaled_case),
    "fp8-blocks": List(scaled_rows("blocks"), {"fp8": always("promoted-block", "deepgemm-block")}, ALL, 10, scaled_case),
    "conv-1": List(conv_rows(1), {"conv-1": conv_peers_of}),
    "conv-32": List(conv_rows(32), {"conv-32": conv_peers_of}),
    "conv-drawn": List(conv_rows(0), {"conv-drawn": conv_peers_of}),
    "graphs": List(graph_rows, {"graphs": graph_peers}, ALL, 16),
    "large": List(lambda seed: dict.fromkeys(large.LARGE, "large"), {"large": graph_peers}, ALL, 5),
    **{of_ranks("sums", n): List(sum_rows, {of_ranks("ranks", n): sum_ways}) for n in PUBLISHED_RANKS},
    **{of_ranks("ranks-models", n): List(ranks_model_rows, {of_ranks("ranks", n): model_ways}) for n in PUBLISHED_RANKS},
}


def main(seed, path):
    lines = [line for name in ("gated_ffn", "gemm_chains", "batch_sweep") for line in problem_lines(name).values()]
    lines += [line for name in ("gated_ffn", "gemm_chains") for line in drawn_lines(name, seed)]
    pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
