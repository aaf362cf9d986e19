"""Reads the rows of a list from the results file of any program: ratios, and why one is missing."""

import os
import sys
from dataclasses import dataclass, field

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path += [BENCH, os.path.join(BENCH, "decode")]

import figures  # noqa: E402
import lists  # noqa: E402
import results as decode_results  # noqa: E402


@dataclass
class Told:
    """One row. `ratios`: each peer's time over Sinter's. `why`: of peers without a time. `wrong`: what is the matter with Sinter's result;
    `failed`: why the row has no times at all."""

    ratios: dict = field(default_factory=dict)
    why: dict = field(default_factory=dict)
    wrong: str = ""
    failed: str = ""

    @property
    def ratio(self):
        """The fastest peer over Sinter; None where there is none, and of a wrong result."""
        return None if self.wrong or self.failed or not self.ratios else min(self.ratios.values())

    def lacks(self, peers):
        """The `peers` that have neither a time nor a reason."""
        return [] if self.wrong or self.failed else [peer for peer in peers if peer not in self.ratios and peer not in self.why]


def of_times(us, ours, why=(), **more):
    """Of {contestant: microseconds}, of which a string is a reason."""
    why = {**dict(why), **{name: said for name, said in us.items() if isinstance(said, str)}}
    times = {name: value for name, value in us.items() if not isinstance(value, str)}
    if ours not in times:
        return Told(why=why, **{"wrong": why.pop(ours, "Sinter has no time"), **more})
    return Told({name: value / times[ours] for name, value in times.items() if name != ours}, why, **more)


def layer_rows(content, group):
    return {row["id"]: layer_row(row) for row in content["rows"] if row["group"] == group}


def layer_row(row):
    if not row["correct"]:
        return Told(wrong=row.get("refused", "wrong"))
    return of_times(row["us"], "sinter", row.get("failed", {}))


def expert_rows(content, _):
    return {f"{row['model']}@{row['rows']}:{row['routing']}": layer_row({**row, "failed": row.get("without", {})}) for row in content["rows"]}


def torch_rows(content, _):
    return {name: torch_row(row) for name, row in content.items() if name != "publish" and not row.get("cut")}


def kernels_ratio(row, peer):
    """A peer's kernels and copies over Sinter's, by the sum of their times, without the gaps between them; None where they were not profiled. The
    profiler can make kernels slower than the whole call, so no sum is larger than the call's time."""
    sums = [min(one["whole"]["us"], one["us"]) for one in map(row["variants"].get, (peer, "sinter")) if one and "us" in one.get("whole", {})]
    return sums[0] / sums[1] if len(sums) == 2 else None


def torch_row(row):
    """The peers are the modes of Inductor, and XLA; eager PyTorch is not one. XLA's calls are compared with Sinter's graph, and its kernels with
    Sinter's kernels; the smaller ratio counts."""
    us = {name: told["us"] for name, told in row.get("variants", {}).items() if "us" in told and name != "eager"}
    said = row.get("skipped") or row.get("error") or ""
    if "sinter" not in us:
        return Told(failed=said.strip().splitlines()[-1][:200] if said.strip() else "no times")
    wrong = "" if row.get("right", True) else "wrong"
    found = of_times(us, "sinter", row.get("without", {}), wrong=wrong)
    if "xla" in found.ratios:
        found.ratios["xla"] = min(found.ratios["xla"], kernels_ratio(row, "xla") or found.ratios["xla"])
    return found


def decode_rows(content, _):
    found = {}
    for (model, rows, _context), case in decode_results.cases(content["rows"]).items():
        us = {name: one["step_us"] for name, one in case.items() if not name.startswith("sinter") or name == decode_results.SINTER}
        found[f"{model}@{rows}"] = us
    whole = {}  # cases that failed as a whole, perhaps in what all contestants share
    for one in content["failures"]:
        row, name = f"{one['model']}@{one['rows']}", one.get("contestant")
        if name == "case":
            whole[row] = Told(failed=one["why"])
        elif name:
            found.setdefault(row, {})[name] = one["why"]
    return {**{row: of_times(us, decode_results.SINTER) for row, us in found.items()}, **whole}


def contestants_of(row):
    """{contestant: microseconds or why there are none}."""
    return {name: one.get("us", one.get("failed", "no time")) for name, one in row["contestants"].items()}


def scaled_rows(content, name):
    scales, found = name.removeprefix("fp8-"), {}
    for row in content["rows"]:
        us = {contestant: value for contestant, value in contestants_of(row).items() if contestant.endswith("-block") == (scales == "blocks")}
        found[f"{row['model']}@{row['m']}:{scales}"] = of_times(us, "sinter-block" if scales == "blocks" else "sinter")
    return found


def conv_rows(content, _):
    return {f"{row['id']}@{row['batch']}": of_times(contestants_of(row), "sinter") for row in content["rows"]}


def graph_rows(content, _):
    return {row["id"]: graph_row(row) for row in content["rows"] if row["steps"] or row["notes"]}


def graph_row(row):
    """PyTorch's graphs are compared with Sinter's, which hold the launches; XLA's kernels with Sinter's, which do not."""
    steps, why = row["steps"], dict(note.split(": ", 1) for note in row["notes"] if ": " in note)
    if "sinter" not in steps:
        return Told(wrong=why["sinter"]) if "sinter" in why else Told(why=why)
    ratios = {name: steps[name]["us"] / steps["sinter"]["us"] for name in ("torch", "torch_max") if name in steps}
    if "xla" in steps and "sinter_kernels" in steps:
        ratios["xla"] = steps["xla"]["us"] / figures.kernels_us(row)
    elif "sinter_kernels" in why:
        why.setdefault("xla", why["sinter_kernels"])
    return Told(ratios, why)


def ffn_rows(content, _):
    return {row["id"]: ffn_row(row) for row in content["rows"]}


def ffn_row(row):
    if not row["correct"]:
        return Told(wrong="; ".join(row["notes"]) or "wrong")
    ratio = figures.quantity(row, "cublaslt/predicted")
    return Told({"cublaslt": ratio}) if ratio else Told(why={"cublaslt": "; ".join(row["notes"]) or "no time"})


def slowest(ranks, part, row):
    """{contestant: us} of the slowest rank; a reason where one rank has it."""
    found = {}
    for rank in ranks:
        told = rank.get(part, {}).get(row, {})
        for name, value in told.items():
            before = found.get(name)
            if isinstance(before, str) or name in ("kernels", "errors", "right", "async error"):
                continue
            found[name] = value if isinstance(value, str) or before is None else max(before, value)
    return found


def rank_rows(content, name):
    """Nothing of a file that lacks a rank, or of fewer ranks than the list is of."""
    sides = content["ranks"]
    if len(sides) != lists.ranks_of(name):
        return {}
    return sum_rows(sides) if name.startswith("sums") else between_rows(sides)


def sum_rows(ranks):
    found = {}
    for m in ranks[0].get("times", {}):
        times = slowest(ranks, "times", m) if m != "stopped" else {}
        for what, start in (("sum", "sum + residual, "), ("layer", "layer, ")):
            us = {way.removeprefix(start): value for way, value in times.items() if way.startswith(start)}
            if us:
                found[f"{what}@{m}"] = of_times({way: value for way, value in us.items() if way == "sinter" or "sinter" not in way}, "sinter")
    return found


def between_rows(ranks):
    """The ops between two attentions of a model."""
    found = {}
    for name in ranks[0].get("models", {}):
        if name not in ("stopped", "left out"):
            right = all(rank["models"].get(name, {}).get("right", True) for rank in ranks)
            found[name] = of_times(slowest(ranks, "models", name), "sinter", wrong="" if right else "wrong")
    return found


# By the file's name in figures.py.
READERS = {
    "models": torch_rows, "training": torch_rows, "decode": decode_rows, "experts": expert_rows, "fp8": scaled_rows, "products": ffn_rows,
    "fusionstitching": torch_rows, **dict.fromkeys(("layers", "encoders", "rowwise"), layer_rows), "ffns": lambda content, _: layer_rows(content, "ffns"),
    **dict.fromkeys(("conv-1", "conv-32", "conv-drawn"), conv_rows), **dict.fromkeys(("graphs", "large"), graph_rows),
    **{lists.of_ranks("ranks", n): rank_rows for n in lists.PUBLISHED_RANKS},
}  # fmt: skip


def told_in(content, key, name):
    """{id: Told} of list `name` in the file called `key`, of which the rows may be more than the list's."""
    return READERS[key](content, name)


def both(one, other):
    """One row of two files."""
    return Told({**one.ratios, **other.ratios}, {**one.why, **other.why}, one.wrong or other.wrong, one.failed or other.failed)
