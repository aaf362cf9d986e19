"""Figures of results files: which files, which quantities a row has, what is computed over rows."""

import json
import math
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(os.path.dirname(HERE), "results")
PEERS = os.path.join(os.path.dirname(HERE), "peers.txt")

# What the page calls a file. A new measurement is published by naming its file here.
FILES = {
    "tables": "h200-2026-11-22-9390e58.json",
    "io": "h200-2026-11-22-9390e58-io.json",
    "batch": "h200-2026-11-22-9390e58-batch.json",
    "middle": "h200-2026-11-22-9390e58-middle-rows.json",
    "random": "h200-2026-11-22-5b4d95a-never-slower.json",
    "random-above": "h200-2026-11-22-467de30-never-slower.json",
    "eager": "h200-2026-11-21-90efbaa-eager.json",
    "bytes": "h200-2026-11-22-27b6d2e-bytes.json",
    "brute-force": "h200-2026-11-22-e12c366-brute-force.json",
    "rank": "h200-2026-11-22-e12c366-rank.json",
    "graphs": "h200-2026-11-22-e805469-graphs.json",
    "peers": "h200-2026-11-22-6e3297e-peers.json",
    "peers-before": "h200-2026-11-22-839f412-peers.json",
    "dram": "h200-2026-11-22-980082d-dram.json",
    "unfused-graphs": "h200-2026-11-22-2f5f10b-graphs.json",
    "random-graphs": "h200-2026-11-22-5dc0611-random-graphs.json",
    "decode": "h200-2026-11-23-9cf8949-decode-steps.json",
    "decode-max": "h200-2026-11-23-5e81b76-decode-max.json",
    "vllm": "h200-2026-11-24-c24e97b-vllm.json",
    "deepgemm": "h200-2026-11-24-d2fa48c-scaled-deepgemm.json",
    "conv-1": "h200-2026-11-24-a944c92-conv-turns-b1.json",
    "conv-8": "h200-2026-11-23-0326e66-conv-cudnn-b8.json",
    "conv-32": "h200-2026-11-24-a944c92-conv-turns-b32.json",
    "places": "h200-2026-11-22-graph-places.txt",
    "layers": "h100-2026-11-27-4735ce8-layers.json",
    "encoders": "h100-2026-11-27-4735ce8-layers.json",
    "depthwise": "h100-2026-11-28-2a27d97-layers-depthwise.json",
    "images": "h100-2026-11-28-2a27d97-layers-images.json",
    "experts": "h200-2026-11-28-9043479-experts.json",
    "ranks": "h200-2026-11-28-9043479-ranks.json",
    "ranks-models": "h200-2026-11-28-9043479-ranks-models.json",
}
# Files of tests/bench/torch_backend, the oldest first: a row of a later file takes the place of an earlier one's.
TORCH = os.path.join(os.path.dirname(HERE), "torch_backend")
TORCH_FILES = {
    "models": ["models-h100-3fd7f0a.json", "models-h100-111587f.json", "models-h100-1e220bb.json", "models-h200-a9be6c7.json",
               "models-h200-fe7f298.json", "models-h200-b54da04.json", "models-h100-2a27d97.json", "models-h200-9043479.json"],
    "training": ["training-h200-fe7f298.json", "training-h100-2a27d97.json", "training-h200-9043479.json"],
}
# The tuning sets that files were measured with; `Store.check` holds the digests against each other.
SETS = {
    "tables": "h200-2026-11-22-9390e58-tuned.set",
    "io": "h200-2026-11-22-9390e58-io-tuned.set",
    "batch": "h200-2026-11-22-9390e58-batch-tuned.set",
    "middle": "h200-2026-11-22-9390e58-middle-rows-tuned.set",
    "random": "h200-2026-11-22-5b4d95a-tuned.set",
    "random-above": "h200-2026-11-22-467de30-tuned.set",
    "graphs": "h200-2026-11-22-e805469-graphs-tuned.set",
}


class MissingFigure(Exception):
    """A file, row or quantity that the page asks for and the results do not have."""


def read_json(name):
    with open(os.path.join(RESULTS, name), encoding="utf-8") as file:
        return json.load(file)


def read_peers():
    """Microseconds of the best other system by problem, from peers.txt."""
    with open(PEERS, encoding="utf-8") as file:
        words = [line.split("#")[0].split() for line in file]
    return {line[0]: float(line[1]) for line in words if line}


def digest_of_set(key):
    """The SHA-256 in the last line of the tuning set that belongs to a results file."""
    with open(os.path.join(RESULTS, SETS[key]), encoding="utf-8") as file:
        return file.read().split()[-1]


class Store:
    """Results files, each read once."""

    def __init__(self):
        self.files = {}
        self.peers = read_peers()

    def file(self, key):
        if key not in FILES:
            raise MissingFigure(f"no file is called {key}")
        if key not in self.files:
            self.files[key] = read_json(FILES[key])
            self.check(key)
        return self.files[key]

    def check(self, key):
        """A published file has no wrong row, says of no modified tree, and was made with the set that is named beside it."""
        content = self.files[key]
        if content.get("dirty"):
            raise MissingFigure(f"{FILES[key]} was made from a modified tree")
        wrong = [row.get("id") or row["model"] for row in content.get("rows", content.get("graphs", [])) if not row.get("correct", True)]
        wrong += [str(failed) for part in [*content.get("ranks", []), content.get("local") or {}] for failed in part.get("failed", [])]
        if wrong:
            raise MissingFigure(f"{FILES[key]} has wrong rows: {', '.join(wrong)}")
        if key in SETS and digest_of_set(key) != content.get("tuning_set"):
            raise MissingFigure(f"{FILES[key]} was not measured with {SETS[key]}")

    def by_torch(self, key):
        """{name: row} of files of tests/bench/torch_backend. A row that is wrong, or of a modified tree, is refused; one that did not end is
        none, whatever an older file says."""
        rows = {}
        for name in TORCH_FILES[key]:
            for row, told in read_json(os.path.join(TORCH, name)).items():
                if "variants" not in told or "error" in told:
                    rows.pop(row, None)
                    continue
                if told["by"].get("dirty") or not told.get("right", True):
                    raise MissingFigure(f"{name}: {row} is wrong, or was made from a modified tree")
                rows[row] = {**told, "file": name}
        return rows

    def rows(self, key, group="all"):
        """Rows of a group. `all`, the start of ids followed by a number (`G`), `m<=128`, `m>128`, or a group of peers.py.
        `joined` has the rows of `peers`, each with its row of `graphs`."""
        if key == "joined":
            graphs = {row["id"]: row for row in self.file("graphs")["graphs"]}
            rows = [{**row, "bench": graphs[row["id"]]} for row in self.file("peers")["rows"]]
        else:
            content = self.file(key)
            rows = content["rows"] if "rows" in content else content.get("graphs", content.get("search"))
        found = [dict(row, best_peer=self.peers.get(row["id"])) for row in rows if belongs(row, group)]
        if not found:
            raise MissingFigure(f"{key} has no rows of {group}")
        return found

    def row(self, key, identity):
        found = [row for row in self.rows(key) if row["id"] == identity]
        if not found:
            raise MissingFigure(f"{FILES[key]} has no row {identity}")
        return found[0]


def belongs(row, group):
    if group == "all":
        return True
    bound = re.fullmatch(r"m(<=|>)(\d+)", group)
    if bound:
        return (rows_of(row) <= int(bound[2])) == (bound[1] == "<=")
    return row.get("group") == group or re.fullmatch(re.escape(group) + r"\d+", row["id"]) is not None


def rows_of(row):
    """M of a row's problem line."""
    return int(re.search(r" m=(\d+)", row["problem"])[1])


def least_of(*values):
    present = [value for value in values if value is not None]
    return min(present) if present else None


def first_of(row, *fields):
    return next((row[field] for field in fields if row.get(field) is not None), None)


def kernels_us(row):
    """Sinter's kernels alone; no longer than the graph that holds them and their launches."""
    own = row.get("sinter_kernel_us")
    return own and least_of(own, row["sinter_us"])


# What a ratio may be made of: microseconds of one computation unless said. A tuned time is the predicted one where no set chose.
QUANTITIES = {
    "tuned": lambda row: first_of(row.get("bench", row), "chosen_cold_us", "chosen_us"),
    "predicted": lambda row: first_of(row.get("bench", row), "untuned_cold_us", "untuned_us", "chosen_cold_us", "chosen_us"),
    "unfused": lambda row: first_of(row, "unfused_cold_us", "unfused_us"),
    "cublaslt": lambda row: row.get("cublaslt_cold_us"),
    "better": lambda row: least_of(row.get("unfused_cold_us"), row.get("cublaslt_cold_us")),
    "best_peer": lambda row: row.get("best_peer"),
    "limit": lambda row: row.get("bench", row).get("limit_us"),
    "energy": lambda row: row.get("chosen_mj_per_call"),
    "cublaslt_energy": lambda row: row.get("cublaslt_mj_per_call"),
    "sinter": lambda row: row.get("sinter_us"),
    "sinter_kernels": kernels_us,
    "torch": lambda row: row.get("torch_compile_us"),
    "xla": lambda row: row.get("xla_us"),
    "peer_with_launches": lambda row: least_of(row.get("torch_compile_us"), row.get("xla_wall_us")),
    "peer_ratio": lambda row: first_of(row, "better_peer_ratio", "ratio"),
    "kernels": lambda row: row.get("kernels"),
    "xla_kernels": lambda row: row.get("xla_kernels"),
    "host": lambda row: row.get("host_us"),
    "torch_host": lambda row: row.get("torch_host_us"),
    "xla_host": lambda row: row.get("xla_host_us"),
    "bytes": lambda row: row.get("bytes"),
    "dram": lambda row: row.get("dram_bytes"),
    "xla_dram": lambda row: row.get("xla_dram_bytes"),
    "first": lambda row: row.get("first_us"),
    "best": lambda row: row.get("best_us"),
    "top": lambda row: row.get("top_us"),
    "measured": lambda row: row.get("measured"),
    "legal": lambda row: row.get("legal"),
    "spearman": lambda row: row.get("spearman"),
    "search": lambda row: row.get("search_seconds"),
    "whole_space": lambda row: row["all_seconds"] * row["legal"] / row["measured"],
}


def quantity(row, expression):
    """`a`, or `a/b` of two quantities; None where the row lacks one."""
    names = expression.split("/")
    for name in names:
        if name not in QUANTITIES:
            raise MissingFigure(f"no quantity is called {name}")
    values = [QUANTITIES[name](row) for name in names]
    if None in values or 0 in values[1:]:
        return None
    return values[0] if len(values) == 1 else values[0] / values[1]


def quantities(rows, expression):
    values = [value for value in (quantity(row, expression) for row in rows) if value is not None]
    if not values:
        raise MissingFigure(f"no row of {', '.join(row['id'] for row in rows[:3])}.. has {expression}")
    return values


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


def percentile(values, percent):
    """Linear between neighbours, as tests/bench/statistics.cc has it."""
    values = sorted(values)
    at = percent / 100 * (len(values) - 1)
    below = int(at)
    above = min(below + 1, len(values) - 1)
    return values[below] + (at - below) * (values[above] - values[below])
