"""The families of the top README's table: which lists each has, the ratios of their rows, and what a published file must have."""

import math
import os
import sys
from dataclasses import dataclass

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import lists  # noqa: E402
import told  # noqa: E402
from figures import FILES, MissingFigure, geometric_mean  # noqa: E402

#: A line of the table: what it is, and its lists.
FAMILIES = {
    "PyTorch models": ("models",),
    "training steps": ("training",),
    "decoding steps": ("decode",),
    "layers of experts": ("experts",),
    "encoder layers": ("encoders",),
    "products, bias, GELU": ("products",),
    "norms, softmax, GELU": ("rowwise",),
    "gated FFNs": ("gated_ffn",),
    "two products, ReLU": ("gemm_chains",),
    "Llama-3-8B's FFN": ("batch_sweep",),
    "random FFNs": ("random_ffns",),
    "fp8 FFNs, scales of rows": ("fp8-rows",),
    "fp8 FFNs, scales of blocks": ("fp8-blocks",),
    "two convolutions": ("conv-1", "conv-32", "conv-drawn"),
    "depthwise convolutions": ("depthwise",),
    "grouped convolutions, resizing": ("images",),
    "FusionStitching's models": ("fusionstitching",),
    "memory-bound graphs": ("graphs",),
    "large graphs": ("large",),
    **{f"sums over {n} GPUs": (lists.of_ranks("sums", n),) for n in lists.PUBLISHED_RANKS},
    **{f"70B, 32B layers on {n} GPUs": (lists.of_ranks("ranks-models", n),) for n in lists.PUBLISHED_RANKS},
}
#: Names of peers, by what programs call them.
NAMES = {
    **dict.fromkeys(("inductor", "compile", "torch"), "`torch.compile`"), **dict.fromkeys(("max_autotune", "autotune", "torch_max"), "max-autotune"),
    **dict.fromkeys(("eager", "promoted", "fast", "promoted-block"), "PyTorch"), **dict.fromkeys(("serving", "linear_relu"), "cuBLAS"),
    **dict.fromkeys(("epilogue", "cublaslt"), "cuBLASLt"), **dict.fromkeys(("fused_relu", "benchmark", "cudnn"), "cuDNN"),
    **dict.fromkeys((*lists.shares.SUMS[1:], lists.shares.ASYNC), "symmetric memory"), "deepgemm-block": "DeepGEMM", "triton": "Triton", "xla": "XLA", "nccl": "NCCL",
}  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """The measured rows of a family. `told`: {row: Told}; `of`: how many rows its lists have; `how`: "", "drawn" or "chosen by hand"."""

    told: dict
    of: int
    how: str

    @property
    def ratios(self):
        return {row: one.ratio for row, one in self.told.items() if one.ratio is not None}

    @property
    def wrong(self):
        return [row for row, one in self.told.items() if one.wrong]

    @property
    def without(self):
        """Rows without a ratio whose result is not wrong: no peer ran, or nothing did."""
        return [row for row, one in self.told.items() if one.ratio is None and not one.wrong]

    @property
    def below(self):
        """The share of rows below 1.00; a wrong one is below."""
        counted = len(self.ratios) + len(self.wrong)
        return (sum(ratio < 1 for ratio in self.ratios.values()) + len(self.wrong)) / counted if counted else math.nan

    @property
    def peers(self):
        """Who has a time in some row, by name."""
        ran = {peer for one in self.told.values() for peer in one.ratios}
        return list(dict.fromkeys(NAMES[peer] for peer in NAMES if peer in ran))

    def count(self):
        """How many rows of how many, and how they were found; how many have no ratio."""
        n = len(self.told)
        text = f"{n} of {self.of}, {self.how}" if self.how else str(n)
        for name, rows in (("wrong", self.wrong), ("without a time", self.without)):
            text += f"; {len(rows)} {name}" if rows else ""
        return text

    def short_count(self):
        """The same in fewer words."""
        return self.count().replace(" of ", "/").replace(", drawn", " drawn").replace(", chosen by hand", " by hand")

    def figures(self):
        """Mean, least and share below 1.00, as text."""
        if not self.ratios:
            return ["-", "-", "-"]
        return [f"{geometric_mean(list(self.ratios.values())):.2f}", f"{min(self.ratios.values()):.2f}", f"{self.below:.0%}"]

    def some(self, rows):
        return Rows({row: one for row, one in self.told.items() if row in rows}, self.of, self.how)


def seed_of(store, name):
    """The commit of a list's files, which is its seed."""
    return store.state(next(iter(lists.LISTS[name].files))).commit


def rows_of(store, *names):
    """The measured rows of some lists. A file that lacks what it must have is refused."""
    keys = list(dict.fromkeys(key for name in names for key in lists.LISTS[name].files))
    commits = {store.state(key).commit for key in keys if store.has(key)}
    if len(commits) > 1:
        raise MissingFigure(f"{', '.join(keys)} are of several commits, {' '.join(sorted(commits))}: measure them in one run")
    absent = [key for key in keys if not store.has(key)]
    if absent and not all(store.by_hand(key) for key in keys if store.has(key)):
        raise MissingFigure(f"{', '.join(keys)}: {', '.join(absent)} is not measured: measure all of them in one run")
    parts = [part for part in (list_rows(store, name) for name in names) if part is not None]
    seed, how = next(iter(commits)), next((part.how for part in parts if part.how), "")
    return Rows({row: one for part in parts for row, one in part.told.items()}, sum(len(lists.LISTS[name].rows(seed)) for name in names), how)


def list_rows(store, name):
    """The same of one list; None if its first file is not there."""
    if name not in store.lists:
        store.lists[name] = read_list(store, name) if store.has(next(iter(lists.LISTS[name].files))) else None
    return store.lists[name]


def read_list(store, name):
    of, found, seed = lists.LISTS[name], {}, seed_of(store, name)
    for key in of.files:
        if store.has(key):
            rows = told.told_in(store.file(key), key, name)
            found = {row: told.both(found[row], rows[row]) for row in found if row in rows} if found else rows
    if any(store.by_hand(key) for key in of.files):
        listed = of.rows(seed)
        return Rows({row: one for row, one in found.items() if row in listed}, len(listed), "chosen by hand")
    rows = [checked(store, name, key, seed) for key in of.files][0]
    return Rows({row: found[row] for row in rows}, len(of.rows(seed)), "drawn" if len(rows) < len(of.rows(seed)) else "")


def checked(store, name, key, seed):
    """The rows of a list in a file. They must be the first rows of the draw, each with every peer's time or a reason; else the file is refused."""
    content, of, refused = store.file(key), lists.LISTS[name], lambda why: MissingFigure(f"{FILES[key]}, list {name}: {why}")
    publish = content.get("publish", {})
    if not publish.get("whole"):
        raise refused("the file is not whole: measure it until nothing is left, or collect it with --shorter")
    if store.state(key).commit != seed or publish.get("seed") != seed:
        raise refused(f"it is of commit {store.state(key).commit} and of seed {publish.get('seed')}, the others of {seed}: measure them in one run")
    rows, order = publish.get("lists", {}).get(name, {}).get("rows", []), of.order(seed)
    if rows != order[: len(rows)] or len(rows) < (of.least or len(order)):
        raise refused(f"it has {len(rows)} rows of {len(order)}, which are not the list's: measure it again")
    found = told.told_in(content, key, name)
    missing = [row for row in rows if row not in found]
    if missing:
        raise refused(f"{len(missing)} rows are missing: {', '.join(missing[:5])}")
    lacking = [f"{row} lacks {' '.join(found[row].lacks(of.files[key](row)))}" for row in rows if found[row].lacks(of.files[key](row))]
    if lacking:
        raise refused(f"{len(lacking)} rows have fewer peers than the step: {', '.join(lacking[:5])}")
    return rows


def check_marks(store):
    """No file that names its lists is taken as chosen by hand."""
    for key in FILES:
        if store.has(key) and store.by_hand(key) and "lists" in store.file(key).get("publish", {}):
            raise MissingFigure(f"{FILES[key]} names its lists, so it may not be marked as chosen by hand")


def server_rows(store):
    """A decoding step of vLLM over two GPUs, which publish.py does not start."""
    rows = [row for row in store.file("vllm-ranks")["rows"] if row["contestant"] == "sinter"]
    return Rows({str(row): told.Told({"vllm": row["decode_ratio"]}) for row in rows}, len(rows), "")


def table(store):
    """[(what, its peers, Rows)] of every family that was measured: the data of the top README's table."""
    check_marks(store)
    found = []
    for what, names in FAMILIES.items():
        if any(store.has(key) for name in names for key in lists.LISTS[name].files):
            rows = rows_of(store, *names)
            if rows.told:
                found.append((what, ", ".join(rows.peers), rows))
    state = store.state("vllm-ranks")
    found.insert(3, (f"vLLM on 2 GPUs, {state.commit}", "vLLM 0.24.0, FlashInfer", server_rows(store)))
    return found
