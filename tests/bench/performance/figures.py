"""Figures of results files: which files, which quantities a row has, what is computed over rows."""

import json
import math
import os
import re
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.dirname(HERE)
PEERS = os.path.join(BENCH, "peers.txt")

# What the page calls a file, in this folder. `publish.py --collect` names new ones here: all that a step measures stands in one file.
FILES = {
    "products": "results/h200-2026-11-28-2e68e7c-products.json",
    "batch": "results/h200-2026-11-28-2e68e7c-products.json",
    "graphs": "results/h200-2026-11-28-2e68e7c-graphs.json",
    "large": "results/h200-2026-11-28-2e68e7c-large.json",
    "decode": "results/h200-2026-11-28-2e68e7c-decode.json",
    "vllm": "results/h200-2026-11-24-c24e97b-vllm.json",
    "vllm-ranks": "results/h200-2026-11-28-9175ebc-vllm-two-gpus.json",
    "fp8": "results/h200-2026-11-28-2e68e7c-fp8.json",
    "conv-1": "results/h200-2026-11-28-2e68e7c-conv-1.json",
    "conv-32": "results/h200-2026-11-28-2e68e7c-conv-32.json",
    "layers": "results/h200-2026-11-28-2e68e7c-layers.json",
    "depthwise": "results/h200-2026-11-28-2e68e7c-layers.json",
    "images": "results/h200-2026-11-28-2e68e7c-layers.json",
    "experts": "results/h200-2026-11-28-2e68e7c-experts.json",
    "ranks": "results/h200-2026-11-28-2e68e7c-ranks.json",
    "ranks-models": "results/h200-2026-11-28-2e68e7c-ranks.json",
    "models": "results/h200-2026-11-28-2e68e7c-models.json",
    "training": "results/h200-2026-11-28-2e68e7c-training.json",
}
# Files of graphs whose plans a tuning set chose.
TUNED = set()


class MissingFigure(Exception):
    """A file, row or quantity that the page asks for and the results do not have."""


def read_json(name):
    with open(os.path.join(BENCH, name), encoding="utf-8") as file:
        return json.load(file)


def read_peers():
    """Microseconds of the best other system by problem, from peers.txt."""
    with open(PEERS, encoding="utf-8") as file:
        words = [line.split("#")[0].split() for line in file]
    return {line[0]: float(line[1]) for line in words if line}


@dataclass(frozen=True)
class State:
    """What a results file says of its making."""

    cards: tuple
    commit: str
    dirty: bool
    day: str

    @property
    def on(self):
        """The cards by their short names."""
        return ", ".join(card_name(card) for card in self.cards)


def card_name(card):
    found = re.search(r"\b[A-Z]+\d{2,}\b", card)
    if not found:
        raise MissingFigure(f"{card} is no card that the tables know")
    return found[0]


def values_of(content, *keys):
    """All strings, numbers and flags under these keys, at any depth, in their order."""
    if isinstance(content, list):
        return [found for one in content for found in values_of(one, *keys)]
    if not isinstance(content, dict):
        return []
    own = [content[key] for key in keys if isinstance(content.get(key), (str, bool))]
    return own + [found for one in content.values() for found in values_of(one, *keys)]


def state_of(content):
    """Of one commit: several are refused."""
    commits = {commit[:7] for commit in values_of(content, "commit")}
    if len(commits) > 1:
        raise MissingFigure(f"a file is of several commits: {', '.join(sorted(commits))}")
    cards = tuple(dict.fromkeys(values_of(content, "gpu", "card")))
    return State(cards, next(iter(commits), "unknown"), True in values_of(content, "dirty"), next(iter(values_of(content, "date")), "")[:10])


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
        """A published file has no wrong row and says of no modified tree."""
        content = self.files[key]
        if state_of(content).dirty:
            raise MissingFigure(f"{FILES[key]} was made from a modified tree")
        wrong = [row.get("id") or row["model"] for row in content.get("rows", []) if not row.get("correct", True)]
        wrong += [str(failed) for part in [*content.get("ranks", []), content.get("local") or {}] for failed in part.get("failed", [])]
        wrong += [name for name, row in content.items() if isinstance(row, dict) and not row.get("right", True)]
        if wrong:
            raise MissingFigure(f"{FILES[key]} has wrong rows: {', '.join(wrong)}")

    def state(self, key):
        return state_of(self.file(key))

    def on(self, key):
        """The cards of a file by their short names, with how many a measurement took."""
        content = self.file(key)
        return (f"{len(content['ranks'])} " if "ranks" in content else "") + self.state(key).on

    def by_torch(self, key):
        """{name: row} of a file of tests/bench/torch_backend, without what did not end."""
        return {name: row for name, row in self.file(key).items() if "variants" in row and "error" not in row}

    def rows(self, key, group="all"):
        """Rows of a group: `all`, the start of ids followed by a number (`G`), or a group by its name."""
        found = [dict(row, best_peer=self.peers.get(row.get("id"))) for row in self.file(key)["rows"] if belongs(row, group)]
        if not found:
            raise MissingFigure(f"{key} has no rows of {group}")
        return found

def belongs(row, group):
    if group == "all":
        return True
    return row.get("group") == group or re.fullmatch(re.escape(group) + r"\d+", row.get("id", "")) is not None


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


# What a ratio may be made of: microseconds of one computation.
QUANTITIES = {
    "predicted": lambda row: first_of(row, "untuned_cold_us", "chosen_cold_us"),
    "cublaslt": lambda row: row.get("cublaslt_cold_us"),
    "best_peer": lambda row: least_of(row.get("best_peer"), row.get("cublaslt_cold_us")),
    "limit": lambda row: row.get("limit_us"),
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
