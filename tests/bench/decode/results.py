#!/usr/bin/env python3
"""Results files of decode.py, and their table.

Usage: results.py FILE.json ..    a table in Markdown of all files together, for docs/performance.md
"""

import json
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import rows_file  # noqa: E402
from models import ALL, BYTES_PER_S, SCALES  # noqa: E402
from source_state import source_state  # noqa: E402
from variants import weights_of  # noqa: E402

SINTER = "sinter-pdl"  # of the table, with the kind of weights that the others have


def row(model, rows, context, contestant, us, bare_us, **more):
    """The stored fields of one contestant in one case. `bare_us`: the step without attention."""
    weights = model.weight_bytes(SCALES.get(weights_of(contestant)[0]), rows)
    cache = model.cache_bytes(rows, context)
    share = lambda moved, us: moved / BYTES_PER_S * 1e6 / us
    return {
        "model": model.name, "rows": rows, "context": context, "contestant": contestant,
        "step_us": us, "without_attention_us": bare_us,
        "tokens_per_s": rows * 1e6 / us,
        "bandwidth": share(weights + cache, us), "bandwidth_without_attention": share(weights, bare_us),
        "attention_share": 1 - bare_us / us,
        **more,
    }


def write(path, machine, rows, failures):
    rows_file.write(path, {"machine": machine, **source_state(machine["library"]), "rows": rows, "failures": failures})


def cases(rows):
    """{(model, rows, context): {contestant: row}} in the order of models.py, then by weights and rows. Weights of 8 bits make a
    case of their own: the model's name says so, contestants' names no more."""
    found, order, kinds = {}, list(ALL), ["bf16", *SCALES]
    place = lambda one: (order.index(one["model"].split("/")[0]), one["context"], kinds.index(weights_of(one["contestant"])[0]), one["rows"])
    for one in sorted(rows, key=place):
        kind, name = weights_of(one["contestant"])
        model = one["model"] if kind == "bf16" else f"{one['model']} {kind}"
        found.setdefault((model, one["rows"], one["context"]), {})[name] = one
    return found


def best_other(case, figure="step_us"):
    """The fastest contestant that is not Sinter; None where there is none."""
    found = [one for name, one in case.items() if not name.startswith("sinter")]
    return min(found, key=lambda one: one[figure], default=None)


def ratio(case, figure="step_us"):
    """The best other contestant's time over Sinter's, with programmatic edges."""
    return best_other(case, figure)[figure] / case[SINTER][figure]


HEAD = ["model", "M", "context", "best other", "us", "Sinter, us", "other / Sinter", "without attention", "tokens/s", "bandwidth",
        "without attention", "attention's share", "kernels", "other's", "mJ a token", "other's", "error"]


def line(key, case):
    """None where a side is missing."""
    other, own = best_other(case), case.get(SINTER)
    if other is None or own is None:
        return None
    energy = lambda one: f"{one['joules'] * 1e3 / one['rows']:.1f}" if one.get("joules") else "-"
    return [key[0], str(key[1]), str(key[2]), other["contestant"], f"{other['step_us']:.0f}", f"{own['step_us']:.0f}",
            f"{ratio(case):.2f}", f"{ratio(case, 'without_attention_us'):.2f}", f"{own['tokens_per_s']:.0f}",
            f"{own['bandwidth']:.2f}", f"{own['bandwidth_without_attention']:.2f}", f"{own['attention_share']:.2f}",
            str(own["kernels"]), str(other["kernels"]), energy(own), energy(other), f"{own['rel_error']:.1e}"]


def table(rows):
    """Sinter and the best of the others, a line a case."""
    lines = [HEAD, ["---"] * len(HEAD)] + [found for key, case in cases(rows).items() if (found := line(key, case))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines).replace("| --- ", "|---").replace("--- |", "---|")


def main(paths):
    if not paths:
        print(__doc__)
        return 2
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows += json.load(file)["rows"]
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
