"""Results files as the programs of publish.py's steps write them, with every row that a step has. For tests: the times are made up."""

import lists
import results_file
from drawn import place

STATE = {"gpu": "NVIDIA H200", "torch": "2.11.0", "commit": "1234567890ab", "dirty": False, "date": "2026-01-02T03:04:05Z"}


def us(name):
    return 10 + 5 * place("us", name)


def times(row, *names):
    return {name: us(f"{row} {name}") for name in names}


def layer_rows(step, seed):
    if step.name == "ffns":
        return [layer_row("ffns", row, ("eager", "compile")) for name in step.lists for row in lists.LISTS[name].wanted(seed)]
    return [layer_row(group, row, lists.layers.case(group, row).peers) for group in step.lists for row in lists.LISTS[group].wanted(seed)]


def layer_row(group, row, peers):
    return {"group": group, "id": row, "rows": 1, "correct": True, "us": times(row, "sinter", *peers)}


def layers(step, seed):
    return {**STATE, "rows": layer_rows(step, seed)}


def products(step, seed):
    rows = []
    for name in step.lists:
        for row in lists.LISTS[name].wanted(seed):
            m = row.rpartition("-m")[2] if "-m" in row else "128"
            rows.append({"id": row, "problem": f"gated_ffn m={m} n=64 k=64 l=64", "chosen": "fused", "chosen_cold_us": us(row), "fused_cold_us": us(row),
                         "cublaslt_cold_us": us(row + "lt"), "limit_us": 2.0, "rel_error": 1e-3, "correct": True, "notes": []})
    return {"machine": {"gpu": STATE["gpu"], "date": STATE["date"]}, "commit": STATE["commit"], "dirty": False, "rows": rows}


def by_torch(step, seed):
    by = {"card": STATE["gpu"], "commit": STATE["commit"], "dirty": False}
    of = {row: {"variants": {name: {"us": us(row + name)} for name in ("eager", "inductor", "sinter")}, "by": by, "right": True}
          for row in lists.LISTS[step.name].wanted(seed)}
    if step.name == "models":
        for i, (row, told) in enumerate(of.items()):
            told["depth"] = "full"
            told.update({"without": {"max_autotune": "not done after 240 s"}} if i == 3 else {})
            told["variants"].update({} if i == 3 else {"max_autotune": {"us": us(row + "max")}})
    if step.name == "fusionstitching":
        for row, told in of.items():
            told["variants"]["xla"] = {"us": us(row + "xla")}
            for name, one in told["variants"].items():
                one["whole"] = {"us": one["us"] / 2, "kernels": len(name)}
    return {**of, **({"gone@1": {"error": "..", "cut": True, "by": by}} if step.name == "models" else {})}


def decode(step, seed):
    rows = []
    for case in lists.LISTS["decode"].wanted(seed):
        model, _, m = case.partition("@")
        for contestant in ("serving", "compile", "sinter-pdl"):
            rows.append({"model": model, "rows": int(m), "context": 1024, "contestant": contestant, "step_us": us(case + contestant), "without_attention_us": 5.0,
                         "tokens_per_s": 1.0, "bandwidth": 0.5, "bandwidth_without_attention": 0.5, "attention_share": 0.5, "kernels": 3, "rel_error": 1e-2,
                         "eager_error": 1e-2})
    return {"machine": {"gpu": STATE["gpu"]}, "commit": STATE["commit"], "dirty": False, "rows": rows, "failures": []}


def experts(step, seed):
    rows = []
    for case in lists.LISTS["experts"].wanted(seed):
        model, _, rest = case.partition("@")
        m, _, routing = rest.partition(":")
        rows.append({"model": model, "rows": int(m), "routing": routing, "correct": True, "without": {}, "us": times(case, "sinter", "triton"), "limit_us": 5.0})
    return {**STATE, "absent": {}, "rows": rows, "failed": {}}


def fp8(step, seed):
    rows = []
    for case in lists.LISTS["fp8-rows"].wanted(seed):
        model, m = case.removesuffix(":rows").split("@")
        names = ("promoted", "fast", "cublaslt", "promoted-block", "deepgemm-block", "sinter", "sinter-block")
        rows.append({"model": model, "m": int(m), "contestants": {name: {"us": us(case + name)} for name in names}})
    return {**STATE, "rows": rows}


def conv(step, seed):
    rows = []
    for case in lists.LISTS[step.name].wanted(seed):
        name, images = case.split("@")
        names = (*lists.conv_peers_of(case), "sinter")
        rows.append({"id": name, "batch": int(images), "contestants": {one: {"us": us(case + one)} for one in names}})
    return {**STATE, "rows": rows}


def graphs(step, seed):
    return {"machine": {"gpu": STATE["gpu"]}, "commit": STATE["commit"], "dirty": False,
            "rows": [graph_row(row, step.name) for row in lists.LISTS[step.name].wanted(seed)]}


def graph_row(row, group):
    peers = lists.graph_peers(row)
    steps = {name: {"us": us(row + name), "kernels": 1, "rel_error": 1e-5, "max_error": 1e-5} for name in ("sinter", "sinter_kernels", *peers)}
    for name, one in steps.items():
        one.update({"host_us": 3.0, "wall_us": us(row + name + "wall"), "copies": 0})
    groups = {**dict.fromkeys(lists.graphs.PROBLEMS, "stitch_graphs"), **dict.fromkeys(lists.large.LARGE, "large")}
    made = {"id": row, "group": groups.get(row, "memory_chains"), "problem": "", "ops": 10, "bytes": 1000, "limit_us": 5.0, "steps": steps, "notes": []}
    results_file.derive(made)
    return made


def ranks(step, seed):
    sums, between = step.lists
    made = {}
    for row in lists.LISTS[sums].wanted(seed):
        what, _, m = row.partition("@")
        start = "sum + residual" if what == "sum" else what
        made.setdefault(m, {}).update({f"{start}, {way}": us(f"{row} {way} {step.gpus}") for way in ("sinter", *lists.sum_ways(row))})
    models = {row: {"kernels": 5, "errors": [0.0], "right": True, **times(row, "sinter", *lists.model_ways(row))} for row in lists.LISTS[between].wanted(seed)}
    rank = {"gpu": STATE["gpu"], "right": {}, "times": made, "models": models, "failed": []}
    return {"commit": STATE["commit"], "dirty": False, "number of ranks": step.gpus, "multicast": False, "failed": [], "local": None,
            "ranks": [{"rank": i, **rank} for i in range(step.gpus)]}


MADE_BY = {"products": products, "models": by_torch, "training": by_torch, "fusionstitching": by_torch, "decode": decode, "experts": experts, "fp8": fp8,
           **{lists.of_ranks("ranks", n): ranks for n in lists.PUBLISHED_RANKS},
           **dict.fromkeys(("ffns", "layers", "encoders", "rowwise"), layers), **dict.fromkeys(("graphs", "large"), graphs),
           **dict.fromkeys(("conv-1", "conv-32", "conv-drawn"), conv)}  # fmt: skip


def file_of(step, seed):
    """What a step's program writes, marked as publish.py marks it."""
    of = {name: {"of": len(lists.LISTS[name].rows(seed)), "rows": lists.LISTS[name].wanted(seed)} for name in step.lists}
    return {**MADE_BY[step.name](step, seed), "publish": {"step": step.name, "whole": True, "seconds": 1, "seed": seed, "lists": of}}
