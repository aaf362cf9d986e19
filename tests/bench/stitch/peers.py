#!/usr/bin/env python3
"""torch.compile, XLA and Sinter on the memory-intensive graphs, in one run: same tensors, same check, cold.

    peers.py --out FILE                        all graphs, all contestants; needs a GPU, PyTorch and JAX
    peers.py --out FILE --only adam,N4 --peers sinter,unfused
    peers.py --summary FILE                    figures of a results file

What is measured: README.md beside this file. Work is done by two processes (worker.py), one that times and one that profiles, one
step (a contestant on a graph) at a time with a limit of seconds; when a step fails, hangs or kills its process, the step is
noted and the next begins in a new one.
The results are written after every step. With an existing FILE only steps without a result are run; --again repeats them.
"""

import argparse
import json
import math
import os
import select
import subprocess
import sys
import time

import problems
import worker
from results_file import Results, summary

STEPS = ["sinter", "unfused", "torch", "torch_max", "sinter_kernels", "xla"]  # in this order
MOST_OPS_TO_TUNE = 400  # above, max-autotune is left out: it takes minutes and changes little


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


def steps_of(case, wanted):
    """The steps of a graph, those for which it is too large left out."""
    return [step for step in STEPS if step in wanted and (step != "torch_max" or len(case.graph["ops"]) <= MOST_OPS_TO_TUNE)]


class Workers:
    """Two processes, so that no profiler watches the one that times."""

    def __init__(self, command):
        self.timing, self.profiling = Process(command), Process(command)

    def of(self, step):
        return self.profiling if step in worker.PROFILED else self.timing

    def stop(self):
        self.timing.stop()
        self.profiling.stop()


def supervise(cases, wanted, workers, results, limit, again=False, seconds=math.inf):
    """Runs cases without a result; false when `seconds` were over before the end."""
    end = time.monotonic() + seconds
    for case in cases:
        for step in steps_of(case, wanted):
            if step in results.row(case)["steps"] and not again:
                continue
            if time.monotonic() > end:
                return False
            begin, process = time.monotonic(), workers.of(step)
            answer = process.run(case.name, step, min(limit, max(1, end - begin)))
            if end - begin < limit and "no answer" in answer.get("error", ""):
                return False  # the call was over before the step's own limit: the next call runs it
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
            f"host {result.get('host_us', math.nan):.1f} us, error {result['rel_error']:.1e} ({took:.0f} s)")


# ---------------------------------------------------------------- summary


# ---------------------------------------------------------------- command line


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="peers.json", help="results file, continued when it exists")
    parser.add_argument("--only", default="", help="names of graphs or of groups, with commas between; N4-m37: chain N4 with 37 rows")
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
    more, unknown, known = [], [], {case.name for case in cases} | {case.group for case in cases}
    for name in [name for name in names if name not in known]:
        try:
            more.append(problems.named(cases, name))
        except KeyError:
            unknown.append(name)
    if unknown:
        raise SystemExit(f"no such graph: {' '.join(unknown)}; there are {' '.join(sorted(known))}")
    return [case for case in cases if not names or case.name in names or case.group in names] + more


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
        return worker.serve(arguments)
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        return 77
    import sinter_abi
    try:
        library = sinter_abi.Library(arguments.library)
    except OSError as error:
        print(f"without Sinter: {error}", flush=True)
        library = None
    cases = selected(problems.all_cases(library), arguments.only)
    command = [sys.executable, os.path.abspath(__file__), "--worker"]
    command += ["--library", arguments.library] if arguments.library else []
    workers, results = Workers(command), Results(arguments.out)
    complete = supervise(cases, arguments.peers.split(","), workers, results, arguments.limit, arguments.again, arguments.seconds)
    workers.stop()
    print("\n".join(summary(list(results.rows.values()))))
    print(f"wrote {arguments.out}" + ("" if complete else "; not complete: run it again to go on"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
