#!/usr/bin/env python3
"""Prints the tables of docs/lab/flashfuser.md from results files of sinter_bench.

usage: flashfuser.py --cases FILE.. --ablation FILE --rank FILE.. --brute FILE.. [--bytes FILE]

cases: of --measure 11 --energy; rank: of --rank, the first file of FlashFuser's tables, others of drawn problems; bytes: of bytes/measure_bytes.py.
Means are arithmetic unless a column says otherwise.
"""

import argparse
import collections
import json
import math
import statistics

TOP = (1, 2, 3, 5, 8, 11)  # candidates that are measured
#: Of the paper: Fig. 15 over no fusion; Table VIII, seconds of brute force and of the search.
STEPS = {"no DSM": 1.52, "DSM at random": 2.11, "searched": 3.29}
TABLE_VIII = {"G3": (1.2 * 3600, 362.1), "G4": (3.0 * 3600, 380.3), "G5": (8.1 * 3600, 381.0)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("cases", "rank", "brute"):
        parser.add_argument(f"--{name}", nargs="+", required=True, type=read)
    for name in ("ablation", "bytes"):
        parser.add_argument(f"--{name}", required=name != "bytes", type=read)
    given = parser.parse_args()
    rows = [row for file in given.cases for row in file["rows"]]
    fused = {row["id"]: row["top_us"] for row in given.rank[0]["search"]}
    tables = [times(rows, fused), energy(rows), ablation(given.ablation)]
    tables += [top_k(given.rank), search(given.brute)] + ([moved(given.bytes)] if given.bytes else [])
    print("\n\n".join(tables))


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(row) + " |" for row in rows])


def two(value):
    return "-" if value is None else f"{value:.2f}"


def ratio(a, b):
    return None if a is None or b is None else a / b


def means(of):
    """Of [(first letter of the id, values by column)]: a row a letter and one of all, absent values left out."""
    groups = collections.defaultdict(list)
    for letter, values in of:
        groups[letter].append(values)
    groups["all"] = [values for _, values in of]
    kept = lambda column: [value for value in column if value is not None]
    return {group: [statistics.mean(kept(column)) if kept(column) else None for column in zip(*rows)] for group, rows in groups.items()}


def times(rows, fused):
    """Fused and unfused side by side, the choice by prediction and by measuring. ``fused``: by id, the best of 11 fused kernels."""
    head = ["id", "fused", "best of 11 fused", "unfused", "predicted choice", "measured choice", "which is", "limit"]
    head += ["unfused / fused", "predicted / measured", "cuBLASLt / measured"]
    lines, ratios = [], []
    for row in rows:
        us = [row.get(name) for name in ("fused_cold_us", "unfused_cold_us", "untuned_cold_us", "chosen_cold_us", "limit_us")]
        of = [ratio(us[1], us[0]), ratio(us[2], us[3]), ratio(row.get("cublaslt_cold_us"), us[3])]
        lines.append([row["id"], two(us[0]), two(fused.get(row["id"])), *map(two, us[1:4]), row["chosen"], *map(two, us[4:] + of)])
        ratios.append((row["id"][0], of))
    lines += [[f"mean of {group}", *[""] * 7, *map(two, of)] for group, of in means(ratios).items()]
    return table(head, lines)


def energy(rows):
    head = ["id", "measured choice", "fused", "unfused", "cuBLASLt", "unfused / fused", "cuBLASLt / measured choice"]
    lines, ratios = [], []
    for row in rows:
        mj = [row.get(f"{name}_mj_per_call") for name in ("chosen", "fused", "unfused", "cublaslt")]
        of = [ratio(mj[2], mj[1]), ratio(mj[3], mj[0])]
        lines.append([row["id"], *map(two, mj + of)])
        ratios.append((row["id"][0], of))
    lines += [[f"mean of {group}", *[""] * 4, *map(two, of)] for group, of in means(ratios).items()]
    return table(head, lines)


def ablation(file):
    kinds = collections.defaultdict(dict)
    for row in file["sweep"]:
        if row.get("measured_us"):
            # Forms that only tuning is offered count one by one; draws count with their geometric mean.
            kind = row["schedule"].split()[0] if row["kind"] == "tuning-alone" else row["kind"]
            kinds[row["id"]].setdefault(kind, []).append(row["measured_us"])
    forms = ("cluster-ranges", "cluster-slab", "spatial-gate")
    head = ["id", "unfused", "no DSM", "DSM at random", "searched", *forms, "cuBLASLt"]
    lines, ratios = [], []
    for row in file["rows"]:
        found = {kind: statistics.geometric_mean(us) for kind, us in kinds[row["id"]].items()}
        steps = [found.get("no-dsm"), found.get("dsm-random"), row["chosen_cold_us"]]
        unfused = row["unfused_cold_us"]
        lines.append([row["id"], *map(two, [unfused, *steps, *map(found.get, forms), row.get("cublaslt_cold_us")])])
        logs = [None if us is None else math.log(unfused / us) for us in steps + [found.get(form) for form in forms]]
        ratios.append((row["id"][0], logs))
    for group, of in means(ratios).items():
        lines.append([f"unfused / step of {group}, geometric", "", *(two(None if mean is None else math.exp(mean)) for mean in of), ""])
    lines.append(["the paper, G and C", "", *(two(STEPS[step]) for step in STEPS), "", "", "", ""])
    return table(head, lines)


def top_k(files):
    """Best of all that were measured over the best of the predicted first K: the mean, and the least."""
    head = ["problems", "number", *(f"K = {k}" for k in TOP), "Spearman"]
    lines = []
    by_id = collections.defaultdict(dict)
    for row in (row for file in files for row in file["sweep"] if row.get("measured_us")):
        by_id[row["id"]][row["rank"]] = row["measured_us"]
    groups = collections.defaultdict(list)
    for judged in files[0]["search"]:
        groups[judged["id"][0]].append(judged)
    groups["all of the tables"] = files[0]["search"]
    groups["drawn"] = [judged for file in files[1:] for judged in file["search"]]
    for group, of in groups.items():
        cells = []
        for k in TOP:
            shares = [100 * min(us.values()) / min(t for rank, t in us.items() if rank <= k) for us in (by_id[judged["id"]] for judged in of)]
            cells.append(f"{statistics.mean(shares):.1f}, {min(shares):.1f}")
        lines.append([group, str(len(of)), *cells, two(statistics.mean(judged["spearman"] for judged in of))])
    return table(head, lines)


def search(files):
    head = ["id", "legal", "measured", "search, s", "all of the space, s", "ratio", "the paper's ratio of its seconds"]
    lines = []
    for row in (row for file in files for row in file["search"]):
        taken = row["all_seconds"] * row["legal"] / row["measured"]
        brute, searched = TABLE_VIII.get(row["id"], (None, None))
        cells = [f"{row['search_seconds']:.2f}", f"{taken:.0f}", f"{taken / row['search_seconds']:.0f}", f"{ratio(brute, searched):.1f}"]
        lines.append([row["id"], f"{row['legal']:.0f}", f"{row['measured']:.0f}", *cells])
    return table(head, lines)


def moved(file):
    """What a plan moves: DRAM's reads, what L2 is asked for, what SMs take in; unfused over fused."""
    counters = ("dram_read", "l2_read", "sm_intake")
    by = collections.defaultdict(dict)
    for row in file["rows"]:
        by[row["id"]][row["contestant"]] = row["counted"]
    head = ["id", *(f"{counter}, unfused / fused" for counter in counters), *(f"{counter}, cuBLASLt / fused" for counter in counters)]
    ratios = []
    for name, found in by.items():
        ratios.append((name[0], [ratio(found.get(other, {}).get(c), found.get("fused", {}).get(c)) for other in ("unfused", "cublaslt") for c in counters]))
    return table(head, [[f"mean of {group}", *map(two, of)] for group, of in means(ratios).items()])


if __name__ == "__main__":
    main()
