#!/usr/bin/env python3
"""GEMM chains and gated FFNs: TileLang, TVM, cuBLAS and Sinter in one process, interleaved.

Usage: paper_peers.py FOLDER LIST.. --out OUT.json [--ids G1,S3] [--contestants NAME,..] [--seconds S]. Needs a GPU and PyTorch; Sinter by
the package `sinter`. FOLDER has what `paper_kernels.py build` compiled; the peers' packages are not needed here.

Each contestant is a CUDA graph of at least 24 calls; replays of all graphs are interleaved. x, weights and outputs rotate over more than 240 MB,
so that they come from HBM. A result that differs from float64 by more than bf16's bounds is not timed; neither is a candidate's.
The file is written after every problem. Contestants:
  sinter             the chosen plan, bf16
  cublas             PyTorch's linear, activation, linear, bf16
  tilelang           two kernels, bf16, each the fastest of its candidates over the rotated weights
  tvm                two kernels, three with a gate, fp16: dlight's default schedule, untuned
"""

import argparse
import ctypes
import json
import os
import sys
import time

import paper_kernels
import rows_file
import turns

CONTESTANTS = "sinter cublas tilelang tvm".split()
ROTATED, LEAST_CALLS = 240e6, 24
RELATIVE, OF_RMS = 5e-3, 0.05  # as src/reference/compare.h for bf16; the second is of what passes a step to the neighbouring value
STEP = 2**-7


def built(folder):
    """{(id, peer): stages}."""
    found = {}
    for peer in paper_kernels.PEERS:
        path = os.path.join(folder, f"{peer}.built.json")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            for stage in json.load(file):
                found.setdefault((stage["id"], peer), []).append(stage)
    return found


class Libraries:
    """Entry points of compiled candidates."""

    def __init__(self, folder):
        self.folder, self.opened = os.path.abspath(folder), {}
        ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)

    def launch(self, candidate):
        """A function of tensors and a stream's handle."""
        name, number = candidate["library"], candidate["number"]
        if name not in self.opened:
            self.opened[name] = ctypes.CDLL(os.path.join(self.folder, f"{name}.so"))
        library = self.opened[name]
        if getattr(library, f"init_{number}")():
            raise RuntimeError("the driver refuses its shared memory")
        call = getattr(library, f"call_{number}")
        call.argtypes = [ctypes.c_void_p] * (len(candidate["args"]) + 1)

        def launch(tensors, stream):
            if call(*(one.data_ptr() for one in tensors), stream):
                raise RuntimeError("its launch fails")

        return launch


class Case:
    """One problem: its sets of tensors by name, and what y must be."""

    context = None  # of Sinter, for all problems

    def __init__(self, torch, kind, p, line):
        self.torch, self.kind, self.p, self.line, self.about = torch, kind, p, line, {}
        self.names = ["x", "gate", "up", "down"] if kind == "gated_ffn" else ["x", "up", "down"]
        first = self._make()
        size = 2 * (sum(one.numel() for one in first.values()) + p["m"] * p["l"])
        self.sets = [first] + [self._make() for _ in range(int(ROTATED / size))]
        self.stream, self.kept = torch.cuda.Stream(), []
        self.wanted = self.chain(**{name: one.double() for name, one in first.items()})

    def _make(self):
        m, n, k, l = (self.p[key] for key in "mnkl")
        shapes = {"x": (m, k), "gate": (n, k), "up": (n, k), "down": (l, n)}
        return {name: (self.torch.randn(*shapes[name], device="cuda") / (1 if name == "x" else shapes[name][1]**0.5)).bfloat16()
                for name in self.names}

    def chain(self, x, up, down, gate=None):
        functional = self.torch.nn.functional
        c = functional.linear(x, up)
        c = functional.relu(c) if gate is None else functional.silu(functional.linear(x, gate)) * c
        return functional.linear(c, down)

    def calls(self, name, found, libraries):
        if name == "cublas":
            return [lambda one=one: self.chain(**one) for one in self.sets]
        if name == "sinter":
            return self.sinter()
        if name not in CONTESTANTS:
            raise ValueError(f"no contestant is called {name!r}; there are {', '.join(CONTESTANTS)}")
        return Peer(self, found, libraries, name == "tvm").calls(name)

    def sinter(self):
        import sinter

        if Case.context is None:
            Case.context = sinter.Context()
        plan = Case.context.prepare(self.line, self.p["m"])
        self.about["sinter"] = {"plan": plan.name, "kernels": plan.kernel_count, "predicted_us": plan.predicted_us}
        with self.torch.cuda.stream(self.stream):
            return [plan.bind(*(one[name] for name in self.names)) for one in self.sets]

    def check(self, got, wanted):
        """Raises if the result is wrong."""
        difference = got.double() - wanted
        relative = (difference.norm() / wanted.norm()).item()
        largest = ((difference.abs() - STEP * wanted.abs()).max().clamp(min=0) / wanted.square().mean().sqrt()).item()
        if not (relative <= RELATIVE and largest <= OF_RMS):
            raise RuntimeError(f"wrong: relative error {relative:.2e}, largest {largest:.2e} of the rms")
        return {"relative_error": relative, "largest_of_rms": largest}

    def captured(self, calls):
        """A graph over all sets and the number of calls in it."""
        calls = calls * -(-LEAST_CALLS // len(calls))
        graph, results = turns.capture(self.torch, self.stream, calls)
        self.kept.append((calls, results))  # the graph uses memory that the calls own
        return graph, len(calls)


class Peer:
    """A chain of compiled stages: of each the fastest candidate, with sets as that peer wants them."""

    def __init__(self, case, stages, libraries, fp16):
        if not stages or not all(stage["candidates"] for stage in stages):
            raise RuntimeError("it has no kernel that compiled for a stage")
        self.case, self.torch, self.stages, self.libraries = case, case.torch, stages, libraries
        self.fp16 = fp16
        self.sets = [self._as_wanted(one) for one in case.sets]
        self.chosen = []

    def _as_wanted(self, tensors):
        """fp16 with weights [in, out] for TVM; and every stage's result."""
        if self.fp16:
            tensors = {name: (one if name == "x" else one.t()).half().contiguous() for name, one in tensors.items()}
        results = {}
        for stage in self.stages:
            candidate = next(one for one in stage["candidates"] if not one["sums"])
            kind = candidate["types"][candidate["args"].index(stage["writes"])]
            dtype = {"half": "float16", "float": "float32"}.get(kind, "bfloat16")
            columns = self.case.p["l"] if stage["writes"] == "y" else self.case.p["n"]
            results[stage["writes"]] = self.torch.empty(self.case.p["m"], columns, device="cuda", dtype=getattr(self.torch, dtype))
        return {**tensors, **results}

    def stage_calls(self, stage, candidate):
        """A call for each set."""
        launch, writes = self.libraries.launch(candidate), stage["writes"]
        sums = self.torch.empty(self.sets[0][writes].shape, device="cuda") if candidate["sums"] else None

        def call(tensors):
            stream = self.torch.cuda.current_stream().cuda_stream
            if sums is None:
                launch([tensors[name] for name in candidate["args"]], stream)
            else:
                sums.zero_()
                launch([sums if name == writes else tensors[name] for name in candidate["args"]], stream)
                tensors[writes].copy_(sums)
            return tensors[writes]

        return [lambda one=one: call(one) for one in self.sets]

    def checked(self, calls, writes, wanted):
        with self.torch.cuda.stream(self.case.stream):
            self.sets[0][writes].fill_(float("nan"))
            got = calls[0]()
            self.torch.cuda.synchronize()
            self.case.check(got, wanted)

    def choose(self, stage, wanted):
        """The calls of the fastest candidate that is right."""
        ready, calls, refused = {}, {}, None
        for number, candidate in enumerate(stage["candidates"]):
            try:
                calls[number] = self.stage_calls(stage, candidate)
                self.checked(calls[number], stage["writes"], wanted)
                ready[number] = self.case.captured(calls[number])
            except Exception as error:  # a candidate that does not run leaves the others
                refused = error
                self.torch.cuda.synchronize()
        if not ready:
            raise RuntimeError(f"no candidate of {stage['writes']} runs: {refused}")
        us = {number: figure["us"] for number, figure in turns.replayed(self.torch, ready, rounds=3).items()}
        best = min(us, key=us.get)
        self.chosen.append({"writes": stage["writes"], "configuration": stage["candidates"][best]["configuration"],
                            "us": us[best], "ran": len(us), "of": len(stage["candidates"])})
        return calls[best]

    def wanted(self):
        """{name: what a stage must write, in float64}; c is rounded as a peer rounds it where a later stage reads it."""
        functional, one = self.torch.nn.functional, {name: tensor.double() for name, tensor in self.case.sets[0].items()}
        up = functional.linear(one["x"], one["up"])
        if "gate" not in one:
            return {"c": functional.relu(up)}, None
        gate = functional.silu(functional.linear(one["x"], one["gate"]))
        return {"c": gate * up}, gate

    def calls(self, name):
        values, gate = self.wanted()
        stages, before = [], len(self.case.kept)
        for i, stage in enumerate(self.stages):
            last = stage["writes"] == "y"
            # TVM's gate is a stage of its own; the stage before the last writes c.
            target = self.case.wanted if last else values["c"] if i + 2 == len(self.stages) else gate
            stages.append(self.choose(stage, target))
        self.case.about[name] = {"kernels": len(stages), "stages": self.chosen}
        del self.case.kept[before:]  # the candidates' graphs

        def call(i):
            for calls in stages:
                result = calls[i]()
            return result

        return [lambda i=i: call(i) for i in range(len(self.sets))]


def measure(case, contestants, found, libraries):
    """{contestant: figures, or why there are none}."""
    torch, rows, ready = case.torch, {}, {}
    for name in contestants:
        try:
            calls = case.calls(name, found.get(name), libraries)
            with torch.cuda.stream(case.stream):
                calls[0]().fill_(float("nan"))
                got = calls[0]()
                torch.cuda.synchronize()
                rows[name] = case.check(got, case.wanted)
            ready[name] = case.captured(calls)
        except Exception as error:  # one contestant that cannot run leaves the others
            rows[name] = {"failed": f"{type(error).__name__}: {error}"[:500]}
            torch.cuda.synchronize()
    for name, figures in turns.replayed(torch, ready).items():
        rows[name].update(figures)
    for name, about in case.about.items():
        rows.setdefault(name, {}).update(about)
    return rows


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("lists", nargs="+")
    parser.add_argument("--out", required=True)
    parser.add_argument("--ids", default="", help="only these, with commas between")
    parser.add_argument("--contestants", default=",".join(CONTESTANTS))
    parser.add_argument("--seconds", type=float, default=600, help="no problem begins later")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse(arguments)
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    begin, found, libraries = time.monotonic(), built(options.folder), Libraries(options.folder)
    result, only = {**turns.machine(torch), "rows": []}, [one for one in options.ids.split(",") if one]
    for name, line, kind, p in paper_kernels.problems(options.lists):
        if (only and name not in only) or time.monotonic() - begin > options.seconds:
            continue
        with torch.no_grad():
            case = Case(torch, kind, p, line)
            rows = measure(case, options.contestants.split(","), {peer: stages for (one, peer), stages in found.items() if one == name}, libraries)
        result["rows"].append({"id": name, "sets": len(case.sets), "contestants": rows})
        print(name, *[f"{key} {row.get('us', float('nan')):.2f}" for key, row in rows.items()], flush=True)
        for key, row in rows.items():
            if "failed" in row:
                print(f"  {key}: {row['failed']}", flush=True)
        rows_file.write(options.out, result)
        del case
        torch.cuda.empty_cache()
    print(f"wrote {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
