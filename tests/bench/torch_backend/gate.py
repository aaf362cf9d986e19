#!/usr/bin/env python3
"""Holds decisions of the torch backend's gate against measurement: points drawn at random, by Inductor and by Sinter's plan, interleaved.

    python3 tests/bench/torch_backend/gate.py OUT.jsonl [--seed S] [--points N] [--few-rows N] [--gpus N] [--jobs N] [--seconds S]
    python3 tests/bench/torch_backend/gate.py OUT.jsonl --report

A row a point, in the order in which they are done; it goes on where an earlier run ended, and begins no point after `--seconds`. Each GPU has
`--jobs` processes, of which one measures at a time. A point is compiled only by Inductor, and by Inductor with Sinter's pass and a gate that
takes all; both run in CUDA graphs whose inputs rotate over 240 MB. Of attention PyTorch's backends run too. `decision` is what the gate as
it stands does. With --target CHIP nothing runs: points are planned on the CPU for that chip.

A decision is wrong if a point is taken and takes over 2 % longer than by Inductor, or if it is left and would take over 5 % less by Sinter.
"""

import argparse
import collections
import contextlib
import faulthandler
import fcntl
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import unittest.mock

import gate_points
from gpu_turn import GpuTurn

ROTATED = 240e6  # bytes that inputs rotate over, so that no call finds them in the L2 cache
MOST_SETS = 128
MOST_EXACT_FLOP = 1e11  # of a product by float64
LIMIT = 90  # seconds of a point, then its process ends
LOSES, MISSES = 1.02, 0.95


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=35)
    parser.add_argument("--points", type=int, default=200, help="of all families")
    parser.add_argument("--few-rows", type=int, default=0, help="more points of attention of few rows")
    parser.add_argument("--family", help="all points are of this one")
    parser.add_argument("--gpus", type=int, default=0, help="0: all that are here")
    parser.add_argument("--jobs", type=int, default=4, help="processes a GPU")
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--target", help="a chip: points are planned for it, and nothing runs")
    parser.add_argument("--report", action="store_true", help="tells what was measured, and measures nothing")
    parser.add_argument("--again", action="store_true", help="the same with decisions and estimates of the gate as it is now")
    parser.add_argument("--worker", type=int, default=-1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.scratch = pathlib.Path(tempfile.gettempdir(), f"sinter-{arguments.out.name}")
    if arguments.report:
        print(report(rows_of(arguments.out)))
    elif arguments.again:
        print(report(again(arguments.out, arguments.target or "h200")))
    elif arguments.worker >= 0:
        work(arguments)
    else:
        lead(arguments)


def names_of(arguments):
    """(index, family or None) of all points. Points of few rows are spread over the list."""
    own = [(i, arguments.family) for i in range(arguments.points)]
    few = [(i, "few_rows") for i in range(arguments.few_rows)]
    total = len(own) + len(few)
    return sorted(own + few, key=lambda at: ((at[0] + 0.5) / (len(few) if at[1] == "few_rows" and few else len(own) or 1), str(at[1])))[:total]


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")] if path.exists() else []


def add_row(path, row):
    with open(path, "a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(row) + "\n")


# ---------------------------------------------------------------- Processes


def lead(arguments):
    """Starts the workers, and replaces those that end at a point."""
    gpus = 1 if arguments.target else arguments.gpus or len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.splitlines())
    until = time.time() + arguments.seconds
    arguments.scratch.mkdir(exist_ok=True)
    for path in (*arguments.scratch.glob("next"), *arguments.scratch.glob("at*")):
        path.unlink()
    running = {i: start(arguments, i, gpus, until) for i in range(gpus * arguments.jobs)}
    while running:
        time.sleep(0.2)
        for i, process in list(running.items()):
            if process.poll() is None and time.time() < until + LIMIT:
                continue
            process.kill()
            at = claimed(arguments.scratch, i)
            if process.wait() and at is not None:
                add_row(arguments.out, {"id": at, "error": f"its process ended with {process.returncode}"})
            del running[i]
            if process.returncode and at is None:
                print((arguments.scratch / "log").read_text()[-2000:])
            elif process.returncode and time.time() < until:
                running[i] = start(arguments, i, gpus, until)
    print(report(rows_of(arguments.out)))


def start(arguments, worker, gpus, until):
    threads = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1", "SINTER_CACHE_DIR": str(arguments.scratch / "cache")}
    no_cache = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}  # whose key does not know which gate it is
    device = {} if arguments.target else {"CUDA_VISIBLE_DEVICES": str(worker % gpus)}
    call = [sys.executable, "-u", sys.argv[0], *sys.argv[1:], "--worker", str(worker), f"--seconds={until - time.time()}"]
    with open(arguments.scratch / "log", "a", encoding="utf-8") as log:
        return subprocess.Popen(call, env={**os.environ, **threads, **no_cache, **device}, stdout=log, stderr=log)


def claimed(scratch, worker):
    """The point that a worker was busy with; None where it was with none."""
    path = scratch / f"at{worker}"
    name = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    return name or None


def next_of(scratch, count):
    """Numbers below `count`, each given to one process."""
    while True:
        with open(scratch / "next", "a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            number = int(file.read() or 0)
            if number >= count:
                return
            file.seek(0)
            file.truncate()
            file.write(str(number + 1))
        yield number


def work(arguments):
    until = time.time() + arguments.seconds
    import torch
    from sinter.torch.backend import planner as planner_module  # noqa: F401: all that a point needs, before the first

    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    device = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    turn = GpuTurn(arguments.scratch / f"turn{device}", torch.cuda.synchronize if not arguments.target else lambda: None)
    points, done = names_of(arguments), {row["id"] for row in rows_of(arguments.out)}
    at = arguments.scratch / f"at{arguments.worker}"
    for number in next_of(arguments.scratch, len(points)):
        if time.time() > until:
            break
        point = gate_points.drawn(arguments.seed, *points[number])
        if point.name in done:
            continue
        at.write_text(point.name)
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        row = {"id": point.name, "family": point.family, **point.what}
        began = time.time()
        try:
            with torch.no_grad():
                row.update(planned(torch, point, arguments.target) if arguments.target else measured(torch, point, turn))
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {error}"[:400]
            traceback.print_exc()
        row["seconds"] = round(time.time() - began, 2)
        faulthandler.cancel_dump_traceback_later()
        add_row(arguments.out, row)
        at.unlink()
        if "AcceleratorError" in row.get("error", ""):  # nothing runs in this process any more
            sys.exit(1)


# ---------------------------------------------------------------- What the gate says


class Told:
    """What the planner made of a graph: nodes that compute and are taken, and each part's estimates."""

    def __init__(self, torch, target, takes_all):
        self.taken, self.parts, self.reports = set(), [], []
        from sinter.torch.runtime.options import Options

        self._options, self._takes_all = Options(prepare="block", target=target), takes_all

    def config(self, point):
        """Inductor's configuration with the pass."""
        from sinter.torch.backend.graph_pass import SinterPass

        weights = frozenset(i for i, x in enumerate(point.inputs) if x.weight)
        return {"post_grad_custom_pre_pass": SinterPass(self._options, self.reports, None, weights)}

    @contextlib.contextmanager
    def listening(self):
        """While a graph is compiled: notes the planned parts; with a gate that takes all, where that is wanted."""
        from sinter.torch.backend import planner as planner_module

        own_parts, own_us = planner_module.Planner.parts, planner_module.inductor_us

        def parts(planner):
            found = own_parts(planner)
            self.taken = {node.name for part in found for node in part.nodes if planner_module.computes(node)}
            self.parts = [self._part(planner, part, own_us) for part in found]
            return found

        def enormous(*_):
            return 1e9

        free = {"inductor_us": enormous, "attention_us": enormous, "worth_a_try": lambda nodes, *_: bool(nodes)}
        with contextlib.ExitStack() as stack:
            stack.enter_context(unittest.mock.patch.object(planner_module.Planner, "parts", parts))
            for name, function in free.items() if self._takes_all else ():
                stack.enter_context(unittest.mock.patch.object(planner_module, name, function))
            yield self

    def _part(self, planner, part, own_us):
        from sinter.torch.gate import gate

        figures, hint = planner._figures, planner._hint_of
        estimated = own_us(part.nodes, figures, hint)
        row = {"ops": len([node for node in part.nodes if gate.computes(node)]), "expected_us": round(part.expected_us, 3)}
        row["inductor_us"], row["share"] = round(estimated, 3), gate.share_of_limit(part.nodes, estimated, figures, hint)
        if part.plan is not None:
            row.update(predicted_us=round(part.plan.predicted_us, 3), kernels=part.plan.kernel_count, plan=part.plan.name)
        row["border_bytes"] = gate.border_bytes(part.nodes, hint)
        row["attention"] = [gate.target_of(node).split(".")[1] for node in part.nodes if gate.is_attention(node)]
        return row

    def left(self):
        return dict(item for report in self.reports for item in report.left)


def decided(point, inputs, target):
    """Rows' fields of the gate as it stands, and the gate that takes all; nothing is compiled by Inductor."""
    from sinter.torch.backend import explain
    from torch._inductor.compile_fx import compile_fx

    told = []
    for takes_all in (False, True):
        told.append(Told(None, target, takes_all))
        with told[-1].listening():
            compile_fx(gate_points.traced(point), inputs, inner_compile=explain._planned, config_patches=told[-1].config(point))
    own, free = told
    decision = "none" if not free.taken else "left" if not own.taken else "taken" if len(own.taken) == len(free.taken) else "some"
    why = dict.fromkeys((own if free.taken else free).left().values())
    return {"decision": decision, "why": "; ".join(why)[:300], "parts": free.parts}


def planned(torch, point, target):
    return decided(point, gate_points.empty(point), target)


def again(path, target):
    """The rows of a file that were measured, as the gate decides now."""
    import sinter

    with sinter.Context(target=target) as context:
        figures = context.describe()["model"]
    return [decided_again(row, figures) for row in rows_of(path) if verdict(row) is not None]


def decided_again(row, figures):
    """The row as the gate decides now, with its present estimates for the graph that Inductor's pass sees. What a plan is expected to take stays,
    and so do decisions about graphs of which some ops are taken."""
    from sinter.torch.convert import attention
    from sinter.torch.gate import gate, library_kernels
    from sinter.torch.gate.sizes import plain_hint

    nodes = nodes_of(gate_points.named(row["id"]))
    own = library_kernels.target_of  # on the CPU PyTorch names its kernel of attention otherwise
    with unittest.mock.patch.object(library_kernels, "target_of", lambda node: attention.CUDNN if attention.is_attention(node) else own(node)):
        attending = [node for node in nodes if attention.is_attention(node)]
        limit, expected = gate.inductor_us(nodes, figures, plain_hint), sum(part["expected_us"] for part in row["parts"])
        share = gate.share_of_limit(nodes, limit, figures, plain_hint)
        alone = [library_kernels.attention_us(node, figures, plain_hint) / gate.attention_times(node, figures, plain_hint) for node in attending]
    taken = gate.worth_a_try(nodes) and expected <= limit * share and (len(nodes) > 3 or all(expected <= most for most in alone))
    decision = row["decision"] if row["decision"] in ("some", "none") or row["family"] == "layer" else "taken" if taken else "left"
    parts = [{**row["parts"][0], "inductor_us": round(limit, 3), "share": share, "expected_us": expected}] if row["parts"] else []
    return {**row, "decision": decision, "parts": parts}


def nodes_of(point):
    """The nodes of the point's graph that a part may hold, as Inductor's pass sees them."""
    import torch
    from sinter.torch.convert.aten import TABLE
    from sinter.torch.convert.converter import target_of
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.fx_passes.post_grad import view_to_reshape

    seen = []

    def keep(gm, _inputs, **_):
        view_to_reshape(gm)
        seen.extend(node for node in gm.graph.nodes if node.op == "call_function" and target_of(node) in TABLE)
        def run(inputs):
            raise AssertionError("nothing runs")

        run._boxed_call = True
        return run

    with torch.no_grad():
        compile_fx(gate_points.traced(point), gate_points.empty(point), inner_compile=keep)
    return seen


# ---------------------------------------------------------------- What is measured


def measured(torch, point, turn):
    from sinter.torch.gate import measure
    from sinter.torch.runtime import run_chain
    from torch._inductor.compile_fx import compile_fx

    inputs = gate_points.made(point, "cuda", 1)
    with turn.given():  # others may measure meanwhile
        torch._dynamo.reset()
        row = decided(point, inputs, None)
        calls = {"inductor": compile_fx(gate_points.traced(point), inputs)}
        for name, takes_all in (("sinter", True), ("gated", False)):
            if row["decision"] == "none" or name == "gated" and row["decision"] != "some":
                continue
            told = Told(torch, None, takes_all)
            with told.listening():
                calls[name] = compile_fx(gate_points.traced(point), inputs, config_patches=told.config(point))
            row["parts"] = told.parts if takes_all else row["parts"]
    turn.give()
    if point.family in ("attention", "few_rows"):
        calls.update(backends(torch, point))
    sets = [inputs, *rotated(torch, inputs)]
    with turn.alone():
        row["error_of"] = errors(torch, point, inputs, calls)
        torch.cuda.synchronize()
        before, graphs = run_chain.counters.launches, {}
        for name, call in calls.items():
            try:
                graphs[name] = measure._captured(lambda values, call=call: call(*values), sets)
            except RuntimeError as error:
                row.setdefault("without", {})[name] = str(error).splitlines()[0][:100]
        row["launches"] = run_chain.counters.launches - before
        times = measure.in_turns(list(graphs.values()))
        row["us"] = {name: round(us / len(sets), 3) for name, us in zip(graphs, times)}
        del graphs
    row["sets"] = len(sets)
    del sets, inputs, calls
    torch.cuda.empty_cache()
    return row


def backends(torch, point):
    """Calls of PyTorch's attention by each backend, whichever it takes by itself."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def by(backend):
        def call(*given):
            with sdpa_kernel(backend):
                return point.call(*given)

        return call

    names = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    return {"eager": point.call, **{name: by(backend) for name, backend in names.items()}}


def rotated(torch, inputs):
    """Copies of inputs, so many that all are ROTATED bytes, or MOST_SETS."""
    count = min(MOST_SETS, math.ceil(ROTATED / max(1, sum(x.nbytes for x in inputs)))) - 1
    return [[torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(x) for x in inputs] for _ in range(count)]


def errors(torch, point, inputs, calls):
    """The relative error of each contestant's first result, in the root mean square. The exact result is float64's; float32's for large products;
    Inductor's if PyTorch has neither. Contestants that raise are dropped."""
    found, first = {}, lambda result: (result[0] if isinstance(result, (tuple, list)) else result)
    given, part = inputs, slice(None)
    if point.family in ("attention", "few_rows"):  # one batch of them
        given, part = [x[:1] for x in inputs], slice(0, 1)
    exact = None
    for dtype in (torch.float64, torch.float32)[point.flop > MOST_EXACT_FLOP:]:
        try:
            exact = first(point.call(*(x.to(dtype) if x.is_floating_point() else x for x in given))).double()
            break
        except (RuntimeError, torch.OutOfMemoryError):
            torch.cuda.empty_cache()
    exact = first(calls["inductor"](*inputs))[part].double() if exact is None else exact
    for name, call in list(calls.items()):
        try:
            result = first(call(*inputs))[part]
            found[name] = float(f"{float((result.double() - exact).norm() / exact.norm().clamp_min(1e-30)):.2e}")
        except RuntimeError as error:
            if name in ("inductor", "sinter"):
                raise
            found[name] = f"{error}".splitlines()[0][:100]
            del calls[name]
    return found


# ---------------------------------------------------------------- What it comes to


def verdict(row):
    """"loses": taken and slower; "misses": left and it would be faster; "right"; None where nothing is decided or measured."""
    us = row.get("us", {})
    if "inductor" not in us or "sinter" not in us or row["decision"] == "none":
        return None
    own = us["gated"] if row["decision"] == "some" and "gated" in us else us["inductor"] if row["decision"] == "left" else us["sinter"]
    if row["decision"] != "left" and own > LOSES * us["inductor"]:
        return "loses"
    return "misses" if us["sinter"] < MISSES * own else "right"


def report(rows):
    """Shares of wrong decisions by family, how estimates compare with measurements, and the worst points."""
    lines = ["family             points  taken  loses  misses  inductor/estimated  plan/expected"]
    by_family = collections.defaultdict(list)
    for row in rows:
        if verdict(row) is not None:
            by_family[row["family"]].append(row)
    for family, own in [*sorted(by_family.items()), ("all", [row for own in by_family.values() for row in own])]:
        count = collections.Counter(map(verdict, own))
        ratios = [spread(row["us"][name] / max(0.01, sum(part[of] for part in row["parts"])) for row in own) for name, of in (("inductor", "inductor_us"), ("sinter", "expected_us"))]
        taken = sum(row["decision"] != "left" for row in own)
        lines.append(f"{family:18s} {len(own):6d} {taken:6d} {count['loses']:6d} {count['misses']:7d}  {ratios[0]:>18s}  {ratios[1]:>13s}")
    failed = collections.Counter(row.get("error", "nothing planned")[:80] for row in rows if verdict(row) is None)
    lines += [f"{count:5d} not decided: {why}" for why, count in failed.most_common(12)]
    wrong = [row for own in by_family.values() for row in own if verdict(row) != "right"]
    for row in sorted(wrong, key=lambda row: -abs(math.log(row["us"]["sinter"] / row["us"]["inductor"]))):
        what = {key: value for key, value in row.items() if key in ("form", "batch", "heads", "shared", "rows", "keys", "width", "term", "m", "k", "n", "columns", "dtype", "axis")}
        estimates = [(part["inductor_us"], part["expected_us"]) for part in row["parts"]]
        lines.append(f"{verdict(row)} {row['id']} {row['family']} {what}: {row['us']}, estimated {estimates}")
    return "\n".join(lines)


def spread(ratios):
    """Geometric mean, and the root mean square of logarithms around it, of ratios."""
    logs = [math.log(max(ratio, 1e-9)) for ratio in ratios]
    return f"{math.exp(statistics.mean(logs)):.2f} +-{statistics.pstdev(logs):.2f}" if logs else "-"


if __name__ == "__main__":
    main()
