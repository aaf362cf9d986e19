#!/usr/bin/env python3
"""Tells results files of architectures.py: how many decoders have parts, their ratios, and how far results are from uncompiled vLLM.

Usage: architectures_table.py FILE.jsonl.. [--rows 8]    a row of a later file takes the place of the same row of an earlier one
"""

import argparse
import json
import math
import statistics
import sys


def read(paths):
    """{name: row}; a row that failed replaces none that ran."""
    found = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                one = json.loads(line)
                if "name" in one and ("failures" not in one or one["name"] not in found):
                    found[one["name"]] = one
    return found


def apart(row):
    """{kind: how many times as far from uncompiled vLLM with the plugin as without}, where both distances are known: the median of prompts, in older files the
    root mean square of all."""
    told = row.get("rms", {})
    both = [(kind, *(told[how][kind].get("middle", told[how][kind]["rms"]) for how in ("vllm", "sinter"))) for kind in told.get("vllm", ()) if kind in told.get("sinter", ())]
    return {kind: ours / own for kind, own, ours in both if own and ours and math.isfinite(own) and math.isfinite(ours)}


def summary(rows, m):
    """What the rows say together, for `m` sequences."""
    ran = [one for one in rows.values() if m in one.get("ratio", {})]
    taken = [one for one in ran if one["parts"] or one["linked"]]
    ratios = [one["ratio"][m] for one in ran]
    away = [times for one in taken for times in apart(one).values()]
    return {"rows": len(rows), "ran": len(ran), "architectures": len({one["architecture"] for one in ran}),
            "with parts": len({one["architecture"] for one in taken}), "mean": statistics.geometric_mean(ratios), "median": statistics.median(ratios),
            "least": min(ratios), "most": max(ratios), "below 0.99": sorted(one["name"] for one in ran if one["ratio"][m] < 0.99),
            "error, times vLLM's": statistics.geometric_mean(away) if away else None}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--rows", default="8", help="number of sequences")
    options = parser.parse_args(arguments)
    rows = read(options.files)
    for key, value in summary(rows, options.rows).items():
        print(f"{key}: {value:.3f}" if isinstance(value, float) else f"{key}: {value}")
    for one in sorted((one for one in rows.values() if options.rows in one.get("ratio", {})), key=lambda one: -one["ratio"][options.rows]):
        times = " ".join(f"{kind} {value:.2f}" for kind, value in apart(one).items())
        print(f"{one['name']:24} {one['ratio'][options.rows]:.3f}  {one['parts']} parts of {one['graphs']} graphs, {one['taken']} of {one['ops']} ops  {times}")
    for one in rows.values():
        for how, what in one.get("failures", {}).items():
            print(f"{one['name']}: {how} failed: {what['why'].splitlines()[0][:160]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
