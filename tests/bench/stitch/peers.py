#!/usr/bin/env python3
"""torch.compile, XLA and Sinter on the memory-intensive graphs, in one run: same tensors, same check, cold.

    peers.py --out FILE                        all graphs, all contestants; needs a GPU, PyTorch and JAX
    peers.py --out FILE --only adam,N4 --peers sinter,unfused
    peers.py --summary FILE                    figures of a results file

What is measured: README.md beside this file. Work is done by a process of its own, one step (a contestant on a graph) at a
time with a limit of seconds; when a step fails, hangs or kills it, the step is noted and the next begins in a new process.
The results are written after every step. With an existing FILE only steps without a result are run; --again repeats them.
"""

import argparse
import json
import math
import os
import select
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = ["sinter", "unfused", "torch", "torch_max", "xla"]  # in this order
CHOICES = {"sinter": "best", "unfused": "unfused"}
MODES = {"torch": "default", "torch_max": "max-autotune-no-cudagraphs"}
MOST_OPS_TO_TUNE = 400  # above, max-autotune is left out: it takes minutes and changes little


# ---------------------------------------------------------------- the worker: runs steps that it is told


class Worker:
    """Answers on descriptor `out`; what libraries print goes to standard error."""

    def __init__(self, out, library):
        import on_device
        import problems
        import sinter_abi
        self.out, self.device = out, on_device
        self.library = self.sinter = None
        try:
            self.library = sinter_abi.Library(library)
        except OSError as error:
            self.missing = str(error)
        self.cases = {case.name: case for case in problems.all_cases(self.library)}
        self.prepared = None

    def serve(self):
        self.answer({"machine": self.device.machine()})
        for line in sys.stdin:
            request = json.loads(line)
            try:
                self.answer({"result": self.run(request["graph"], request["step"])})
            except Exception as error:  # pylint: disable=broad-except
                self.answer({"error": f"{type(error).__name__}: {str(error)[:400]}"})

    def answer(self, message):
        self.out.write(json.dumps(message) + "\n")
        self.out.flush()

    def run(self, name, step):
        if self.prepared is None or self.prepared.case.name != name:
            self.prepared = None
            self.device.torch.cuda.empty_cache()
            self.prepared = self.device.Prepared(self.cases[name])
        if step in MODES:
            return self.device.measure_torch(self.prepared, MODES[step])
        if step == "xla":
            return self.device.measure_xla(self.prepared)
        return self.with_sinter().measure(self.prepared, CHOICES[step])

    def with_sinter(self):
        if self.library is None:
            raise RuntimeError(f"no libsinter: {self.missing}")
        self.sinter = self.sinter or self.device.Sinter(self.library)
        return self.sinter

    def once(self, name, step):
        """One cold call, for a profiler that watches this process."""
        self.device.torch.cuda.empty_cache()
        device, prepared = self.device, self.device.Prepared(self.cases[name])
        stream = device.torch.cuda.Stream()
        if step in MODES:
            device.once(prepared, device.torch_call(prepared, MODES[step])[0])
        elif step == "xla":
            import jax
            call, _, held = device.xla_call(prepared)

            def finished(i):
                call(i)
                jax.block_until_ready(list(held))

            device.once(prepared, finished)
        else:
            device.once(prepared, self.with_sinter().call(prepared, CHOICES[step], stream)[0], stream)


def serve(arguments):
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("SINTER_CACHE", "off")
    worker = Worker(out, arguments.library)
    if arguments.once:
        for name in arguments.only.split(","):
            worker.once(name, arguments.peers)
    else:
        worker.serve()
    return 0


# ---------------------------------------------------------------- the supervisor


class Process:
    """A worker process, started when it is needed and again after it died."""

    def __init__(self, command, start_limit=180):
        self.command, self.start_limit, self.process, self.machine = command, start_limit, None, None

    def run(self, graph, step, limit):
        """{"result": ..} or {"error": ..}."""
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
            hello = self.receive(self.start_limit)
            if "machine" not in hello:
                return hello
            self.machine = hello["machine"]
        try:
            self.process.stdin.write(json.dumps({"graph": graph, "step": step}) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return self.died()
        return self.receive(limit)

    def receive(self, limit):
        ready, _, _ = select.select([self.process.stdout], [], [], limit)
        if not ready:
            self.stop()
            return {"error": f"no answer within {limit} s"}
        line = self.process.stdout.readline()
        return json.loads(line) if line else self.died()

    def died(self):
        status = self.process.wait()
        self.forget()
        return {"error": f"the process ended with {status}"}

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.forget()

    def forget(self):
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass
        self.process = None


class Results:
    """The results file: rows by graph, each with its steps; derived figures are filled in when it is written."""

    def __init__(self, path):
        self.path, self.rows, self.machine = path, {}, {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                old = json.load(file)
            self.machine, self.rows = old["machine"], {row["id"]: row for row in old["rows"]}

    def row(self, case):
        return self.rows.setdefault(case.name, {
            "id": case.name, "group": case.group, "problem": case.line or "", "ops": len(case.graph["ops"]),
            "bytes": case.bytes(), "limit_us": case.limit_us(), "steps": {}, "notes": []})

    def add(self, case, step, answer):
        row = self.row(case)
        row["notes"] = [note for note in row["notes"] if not note.startswith(step + ": ")]
        if "result" in answer:
            row["steps"][step] = answer["result"]
        else:
            row["steps"].pop(step, None)
            row["notes"].append(f"{step}: {answer['error']}")
        derive(row)

    def write(self):
        content = {"machine": self.machine, **source_state(), "rows": list(self.rows.values())}
        with open(self.path + ".part", "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.write("\n")
        os.replace(self.path + ".part", self.path)


def derive(row):
    """The figures of the schema from the steps."""
    steps = row["steps"]
    compiled = [steps[step] for step in MODES if step in steps]
    best = min(compiled, key=lambda s: s["us"], default={})
    sinter, unfused, xla = (steps.get(step, {}) for step in ("sinter", "unfused", "xla"))
    row.update({
        "sinter_us": sinter.get("us"), "unfused_us": unfused.get("us"), "predicted_us": sinter.get("predicted_us"),
        "torch_compile_us": best.get("us"), "xla_us": xla.get("us"), "xla_wall_us": xla.get("wall_us"),
        "kernels": sinter.get("kernels"), "unfused_kernels": unfused.get("kernels"), "torch_kernels": best.get("kernels"),
        "xla_kernels": xla.get("kernels"), "xla_copies": xla.get("copies"), "host_us": sinter.get("host_us"),
        "torch_host_us": best.get("host_us"), "xla_host_us": xla.get("host_us"), "rel_error": sinter.get("rel_error"),
        "max_error": sinter.get("max_error")})
    peers = [us for us in (row["torch_compile_us"], row["xla_us"]) if us]
    row["best_peer_us"] = min(peers, default=None)


def source_state():
    root = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
    try:
        with open(os.path.join(root, "COMMIT"), encoding="utf-8") as file:
            words = file.read().split()
        return {"commit": words[0], "dirty": words[1] != "clean"}
    except (OSError, IndexError):
        pass
    git = lambda *args: subprocess.run(["git", "-C", root, *args], capture_output=True, text=True, check=False).stdout.strip()
    return {"commit": git("rev-parse", "HEAD") or "unknown", "dirty": bool(git("status", "--porcelain"))}


def steps_of(case, wanted):
    """The steps of a graph, those for which it is too large left out."""
    return [step for step in STEPS if step in wanted and (step != "torch_max" or len(case.graph["ops"]) <= MOST_OPS_TO_TUNE)]


def supervise(cases, wanted, process, results, limit, again=False, seconds=math.inf):
    """Runs what has no result yet; false when `seconds` were over before the end."""
    end = time.monotonic() + seconds
    for case in cases:
        for step in steps_of(case, wanted):
            if step in results.row(case)["steps"] and not again:
                continue
            if time.monotonic() > end:
                return False
            begin = time.monotonic()
            answer = process.run(case.name, step, min(limit, max(1, end - begin)) if seconds < math.inf else limit)
            results.machine = process.machine or results.machine
            results.add(case, step, answer)
            results.write()
            print(progress(case, step, answer, time.monotonic() - begin), flush=True)
    return True


def progress(case, step, answer, took):
    if "error" in answer:
        return f"{case.name:28} {step:10} {answer['error']}"
    result = answer["result"]
    return (f"{case.name:28} {step:10} {result['us']:9.2f} us, limit {case.limit_us():8.2f}, kernels {result['kernels']}, "
            f"host {result['host_us']:.1f} us, error {result['rel_error']:.1e} ({took:.0f} s)")


# ---------------------------------------------------------------- summary


def geometric_mean(values):
    return statistics.geometric_mean(values) if values else None


def summary(rows):
    """Lines with the geometric means of each group and what misses its goal."""
    lines = []
    for group in dict.fromkeys(row["group"] for row in rows):
        some = [row for row in rows if row["group"] == group and row.get("sinter_us")]
        ratios = {
            "limit / Sinter": [r["limit_us"] / r["sinter_us"] for r in some],
            "better peer / Sinter": [r["best_peer_us"] / r["sinter_us"] for r in some if r["best_peer_us"]],
            "XLA's kernels' time / Sinter": [r["xla_us"] / r["sinter_us"] for r in some if r["xla_us"]],
            "unfused / Sinter": [r["unfused_us"] / r["sinter_us"] for r in some if r["unfused_us"]],
            "kernels / XLA's": [r["kernels"] / r["xla_kernels"] for r in some if r["xla_kernels"] and r["kernels"]],
        }
        for name, values in ratios.items():
            if values:
                lines.append(f"{group}: {name}: geometric mean {geometric_mean(values):.3f}, least {min(values):.3f}, "
                             f"most {max(values):.3f}, of {len(values)}")
        peers = [r["best_peer_us"] / r["limit_us"] for r in rows if r["group"] == group and r.get("best_peer_us")]
        if peers:
            lines.append(f"{group}: better peer / limit: geometric mean {geometric_mean(peers):.3f} of {len(peers)}")
    return lines


# ---------------------------------------------------------------- command line


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="peers.json", help="results file, continued when it exists")
    parser.add_argument("--only", default="", help="names of graphs or of groups, with commas between")
    parser.add_argument("--peers", default=",".join(STEPS), help="which of " + " ".join(STEPS))
    parser.add_argument("--limit", type=float, default=150, help="seconds a step may take")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no step after so many")
    parser.add_argument("--again", action="store_true", help="also what has a result already")
    parser.add_argument("--library", default=None, help="libsinter.so; else SINTER_LIBRARY, or the one of this tree")
    parser.add_argument("--summary", metavar="FILE", help="print the figures of a results file")
    parser.add_argument("--once", action="store_true", help="one cold call of each of --only by --peers, for a profiler")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def selected(cases, only):
    names = [name for name in only.split(",") if name]
    known = {case.name for case in cases} | {case.group for case in cases}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such graph: {' '.join(unknown)}; there are {' '.join(sorted(known))}")
    return [case for case in cases if not names or case.name in names or case.group in names]


def why_not():
    """Why this machine cannot run it; empty when it can."""
    try:
        import torch
    except ImportError:
        return "no PyTorch"
    return "" if torch.cuda.is_available() else "no GPU"


def main():
    arguments = parse()
    if arguments.summary:
        with open(arguments.summary, encoding="utf-8") as file:
            print("\n".join(summary(json.load(file)["rows"])))
        return 0
    if arguments.worker or arguments.once:
        return serve(arguments)
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        return 77
    import problems
    import sinter_abi
    try:
        library = sinter_abi.Library(arguments.library)
    except OSError as error:
        print(f"without Sinter: {error}", flush=True)
        library = None
    cases = selected(problems.all_cases(library), arguments.only)
    command = [sys.executable, os.path.abspath(__file__), "--worker"]
    command += ["--library", arguments.library] if arguments.library else []
    process, results = Process(command), Results(arguments.out)
    complete = supervise(cases, arguments.peers.split(","), process, results, arguments.limit, arguments.again, arguments.seconds)
    process.stop()
    print("\n".join(summary(list(results.rows.values()))))
    print(f"wrote {arguments.out}" + ("" if complete else "; not complete: run it again to go on"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
