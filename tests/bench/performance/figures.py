"""Figures of results files: which files, which quantities a row has, what is computed over rows."""

import json
import math
import os
import re
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.dirname(HERE)

# What each step of publish.py measured, in this folder's parent; "" before it did. `publish.py --collect` names new ones here.
FILES = {
    "products": "results/h200-2026-11-28-e42fe0a-products.json",
    "ffns": "results/h200-2026-11-28-e42fe0a-ffns.json",
    "graphs": "results/h200-2026-11-28-2e68e7c-graphs.json",
    "large": "results/h200-2026-11-28-2e68e7c-large.json",
    "decode": "results/h200-2026-11-28-e42fe0a-decode.json",
    "vllm-ranks": "results/h200-2026-11-28-9175ebc-vllm-two-gpus.json",
    "fp8": "results/h200-2026-11-28-e42fe0a-fp8.json",
    "conv-1": "results/h200-2026-11-28-e42fe0a-conv-1.json",
    "conv-32": "results/h200-2026-11-28-e42fe0a-conv-32.json",
    "conv-drawn": "results/h200-2026-11-28-e42fe0a-conv-drawn.json",
    "layers": "results/h200-2026-11-28-e42fe0a-layers.json",
    "encoders": "results/h200-2026-11-28-e42fe0a-encoders.json",
    "rowwise": "results/h200-2026-11-28-e42fe0a-rowwise.json",
    "experts": "results/h200-2026-11-28-e42fe0a-experts.json",
    "ranks": "results/h200-2026-11-28-2e68e7c-ranks.json",
    "ranks-4": "",
    "models": "results/h200-2026-11-28-2e68e7c-models.json",
    "training": "results/h200-2026-11-28-2e68e7c-training.json",
    "fusionstitching": "results/h200-2026-11-29-eb74deb-fusionstitching.json",
}
# Files of the commit before lists.py, whose rows a person chose: every table that reads one says so. One that names its lists is refused here.
BY_HAND = {name for name in FILES.values() if "-2e68e7c-" in name}


class MissingFigure(Exception):
    """A file, row or quantity that the page asks for and the results do not have."""


def read_json(name):
    with open(os.path.join(BENCH, name), encoding="utf-8") as file:
        return json.load(file)


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
    """The state of one commit: several are refused."""
    commits = {commit[:7] for commit in values_of(content, "commit")}
    if len(commits) > 1:
        raise MissingFigure(f"a file is of several commits: {', '.join(sorted(commits))}")
    cards = tuple(dict.fromkeys(values_of(content, "gpu", "card")))
    return State(cards, next(iter(commits), "unknown"), True in values_of(content, "dirty"), next(iter(values_of(content, "date")), "")[:10])


class Store:
    """Results files, each read once."""

    def __init__(self):
        self.files, self.states = {}, {}
        self.lists = {}  # of families.py

    def has(self, key):
        """Whether a step was measured at all."""
        if key not in FILES:
            raise MissingFigure(f"no file is called {key}")
        return bool(FILES[key])

    def file(self, key):
        if not self.has(key):
            raise MissingFigure(f"{key} was not measured yet")
        if key not in self.files:
            self.files[key] = read_json(FILES[key])
            self.check(key)
        return self.files[key]

    def check(self, key):
        """A published file is of a known commit without changes."""
        content, state = self.files[key], state_of(self.files[key])
        if state.dirty:
            raise MissingFigure(f"{FILES[key]} was made from a modified tree")
        if state.commit == "unknown" or not state.cards or "unknown" in state.cards:
            raise MissingFigure(f"{FILES[key]} does not say its commit or its card")
        if True not in values_of(content, "dirty") and False not in values_of(content, "dirty"):
            raise MissingFigure(f"{FILES[key]} does not say whether its tree was modified")
        sides = [*content.get("ranks", []), content.get("local") or {}, *([content] if "ranks" in content else [])]
        failed = [part for side in sides for part in side.get("failed", []) if part not in ("times", "models")]
        if failed:
            raise MissingFigure(f"{FILES[key]} has wrong parts: {', '.join(failed)}")

    def by_hand(self, key):
        """Whether a person chose the rows of a file."""
        return FILES[key] in BY_HAND

    def state(self, key):
        content = self.file(key)
        if key not in self.states:
            self.states[key] = state_of(content)
        return self.states[key]

    def on(self, key):
        """The cards of a file by their short names, with how many a measurement took."""
        content = self.file(key)
        return (f"{len(content['ranks'])} " if "ranks" in content else "") + self.state(key).on

    def rows(self, key, group="all"):
        """Rows of a group: `all`, the start of ids followed by a number (`G`), or a group by its name."""
        found = [row for row in self.file(key)["rows"] if belongs(row, group)]
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
    """Only Sinter's kernels; no longer than the graph that holds them and their launches."""
    own = row.get("sinter_kernel_us")
    return own and least_of(own, row["sinter_us"])


# What a ratio may be made of: microseconds of one computation.
QUANTITIES = {
    "predicted": lambda row: first_of(row, "untuned_cold_us", "chosen_cold_us"),
    "cublaslt": lambda row: row.get("cublaslt_cold_us"),
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
