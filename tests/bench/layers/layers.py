#!/usr/bin/env python3
"""Layers of real models by prediction on one GPU, cuBLAS and torch.compile: results held against float64, then interleaved times.

    python3 tests/bench/layers/layers.py OUT.json [--groups products,rowwise,encoders,images,depthwise] [--ids TEXT] [--budget SECONDS]
    python3 tests/bench/layers/layers.py OUT.json --cases encoders:bert_base-128,encoders:vit_b-37
    python3 tests/bench/layers/layers.py OUT.json --problems LIST.txt

Products with bias and GELU (problems/layer_products.txt), row-wise ops, what lies between two attentions of an encoder, convolutions in
groups and of each channel alone, images enlarged between four pixels; --cases: these, also with other numbers of rows; --problems: gated FFNs
and pairs of products of a problem list. Runs what
OUT.json does not hold yet of this card and library, and ends before the budget does: call it again until it says that nothing is left.
Operands rotate over more than 240 MB, in CUDA graphs. Contestants:
  sinter     the plan that the cost model chooses
  eager      PyTorch: cuBLAS for products, its own kernels for the rest
  epilogue   cuBLASLt's product with bias and GELU by tanh
  compile    torch.compile, the default mode
  autotune   torch.compile, max-autotune
"""

import argparse
import contextlib
import json
import math
import os
import pathlib
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import cases as layers  # noqa: E402
import rows_file  # noqa: E402
import turns  # noqa: E402

ROTATED = 240e6  # bytes
LEAST_CALLS, MOST_SETS = 16, 12
RELATIVE = 8e-3  # Frobenius, of bf16 results that were rounded a few times


def error(found, exact):
    """The largest relative Frobenius error of the results."""
    pairs = zip(*(results if isinstance(results, (tuple, list)) else (results,) for results in (found, exact)))
    return max(((y.double() - z).norm() / z.norm()).item() for y, z in pairs)


def calls_of(torch, case, plan, sets):
    """{contestant: a function of the operands}."""
    found = {"sinter": plan, "eager": case.eager}
    if "epilogue" in case.peers:
        found["epilogue"] = lambda x, w, b: torch._addmm_activation(b, x, w.t(), use_gelu=True)
    for mode in turns.COMPILE_OPTIONS:
        if mode in case.peers:
            found[mode] = turns.compiled(torch, case.eager, mode)
    return {name: call for name, call in found.items() if name == "sinter" or name in case.peers}


def measure(torch, case, plan):
    """A row of the results: microseconds and error of each contestant."""
    count = max(1, min(MOST_SETS, int(ROTATED / (2 * case.elements)) + 1))
    sets = [case.make(torch) for _ in range(count)]
    contestants = calls_of(torch, case, plan, sets)
    exact = case.exact(*(operand.double() for operand in sets[0]))
    errors, failed = {}, {}
    for name, call in contestants.items():
        with told_where_it_fails(torch, name, failed):
            errors[name] = float(f"{error(call(*sets[0]), exact):.1e}")
    del exact
    row = {"group": case.group, "id": case.id, "rows": case.rows, "kernels": plan.kernel_count,
           "predicted_us": round(plan.predicted_us, 3) if case.rows <= plan.bucket else None, "errors": errors, "correct": errors["sinter"] <= RELATIVE, "failed": failed}
    if not row["correct"]:
        return row
    repeated = -(-LEAST_CALLS // count) * count
    stream, graphs, kept = torch.cuda.Stream(), {}, []
    for name in errors:
        calls = [lambda call=contestants[name], s=sets[i % count]: call(*s) for i in range(repeated)]
        with told_where_it_fails(torch, name, failed):
            graph, results = turns.capture(torch, stream, calls)
            graphs[name] = (graph, repeated)
            kept.append((calls, results))
    row["us"] = {name: round(figure["us"], 3) for name, figure in turns.replayed(torch, graphs).items()}
    peers = {name: us for name, us in row["us"].items() if name != "sinter"}
    if peers:
        row["best_peer"] = min(peers, key=peers.get)
        row["ratio"] = round(peers[row["best_peer"]] / row["us"]["sinter"], 3)
    return row


@contextlib.contextmanager
def told_where_it_fails(torch, name, failed):
    """A peer that fails leaves the others; why stands in `failed`."""
    try:
        yield
    except Exception as why:  # of any library
        if name == "sinter":
            raise
        failed[name] = f"{type(why).__name__}: {why}"[:200]
        torch.cuda.synchronize()


def prepared(context, sinter, case):
    try:
        return context.prepare(case.chain(sinter) if callable(case.chain) else case.chain, m=case.rows)
    except sinter.Error as failure:
        return failure


def summary(rows):
    """A line a group: the number, the geometric mean and the least of best peer / Sinter."""
    lines = []
    for group in dict.fromkeys(row["group"] for row in rows):
        found = [row for row in rows if row["group"] == group and "ratio" in row]
        if found:
            mean = math.exp(sum(math.log(row["ratio"]) for row in found) / len(found))
            least = min(found, key=lambda row: row["ratio"])
            lines.append(f"{group}: {len(found)} rows, best peer / Sinter {mean:.3f} in the mean, least {least['ratio']:.3f} ({least['id']})")
    return "\n".join(lines)


def wanted_by(options):
    """The cases that the command line names."""
    if options.problems:
        return layers.ffns(options.problems)
    if options.cases:
        return [layers.case(*name.split(":", 1)) for name in options.cases.split(",")]
    return [case for group in options.groups.split(",") for case in layers.cases(group) if options.ids in case.id]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--groups", default=",".join(layers.GROUPS))
    parser.add_argument("--ids", default="", help="a part of the ids")
    parser.add_argument("--cases", default="", help="GROUP:ID with commas between, instead of --groups and --ids")
    parser.add_argument("--problems", default="", help="a list of gated FFNs and pairs of products, instead of --groups")
    parser.add_argument("--budget", type=float, default=560, help="seconds")
    options = parser.parse_args()
    until = time.monotonic() + options.budget
    import sinter
    import torch

    wanted = wanted_by(options)
    result = {**turns.machine(torch), "rows": []}
    if options.out.exists():
        before = json.loads(options.out.read_text(encoding="utf-8"))
        if all(before[key] == result[key] for key in ("gpu", "commit", "dirty")):
            result["rows"] = before["rows"]
    held = {(row["group"], row["id"]) for row in result["rows"]}
    wanted = [case for case in wanted if (case.group, case.id) not in held]
    torch.manual_seed(0)
    context = sinter.Context()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        plans = list(pool.map(lambda case: prepared(context, sinter, case), wanted))
    left = 0
    for case, plan in zip(wanted, plans):
        if time.monotonic() > until:
            left += 1
            continue
        try:
            if isinstance(plan, sinter.Error):
                raise plan
            row = measure(torch, case, plan)
        except (sinter.Error, RuntimeError) as why:  # the others are measured
            row = {"group": case.group, "id": case.id, "correct": False, "refused": f"{type(why).__name__}: {why}"[:300]}
        print(json.dumps(row), flush=True)
        result["rows"].append(row)
        rows_file.write(str(options.out), result)
        torch.cuda.synchronize()  # a device that is lost ends the run: the next call continues after this row
    print(summary(result["rows"]))
    if left:
        print(f"{left} left; run the command again")
    sys.exit(0 if all(row["correct"] for row in result["rows"]) else 1)


if __name__ == "__main__":
    main()
