"""compile_time_test.py SINTER [all]: no kernel of a short chain compiles for long, and deadlines hold meanwhile."""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

MOST_S = 10  # of processor time, for one kernel


class Chain:
    def __init__(self, *inputs):
        self.inputs = [{"id": i, "dtype": dtype, "dims": ["M", columns]} for i, (dtype, columns) in enumerate(inputs)]
        self.ops = []

    def add(self, op, operands, **attributes):
        self.ops.append({"id": len(self.inputs) + len(self.ops), "op": op, "in": operands, **attributes})
        return self.ops[-1]["id"]

    def of(self, *outputs):
        return {"schema": 1, "inputs": self.inputs, "ops": self.ops, "outputs": [{"value": value} for value in outputs]}


def nested(wide, columns=1, dtype="f32", inside=None):
    chain = Chain((dtype, columns))
    x = 0
    for _ in range(2):
        if inside:
            x = chain.add("unary", [x], kind=inside)
        x = chain.add("concat", [x] * wide, axis=1)
    return chain.of(chain.add("unary", [x], kind="exp"))


def repeated(kind, count, op="unary"):
    chain = Chain(*[("f32", 4096)] * (1 if op == "unary" else 2))
    x = 0
    for _ in range(count):
        x = chain.add(op, [x] if op == "unary" else [x, 1], kind=kind)
    return chain.of(x)


def reduced(wide):
    chain = Chain(("f32", 4))
    x = chain.add("unary", [chain.add("concat", [0] * wide, axis=1)], kind="exp")
    return chain.of(chain.add("reduce", [chain.add("concat", [x] * wide, axis=1)], kind="sum", axes=[1]))


def outputs_of_slices():
    chain = Chain(("f32", 64))
    x = chain.add("concat", [0] * 64, axis=1)
    slices = [chain.add("slice", [x], starts=[0, 7 * i], limits=["M", 7 * i + 2048], steps=[1, 1]) for i in range(32)]
    return chain.of(*[chain.add("unary", [part], kind="exp") for part in slices])


SHORT = {"two nested concats of 64": nested(64), "of 64, eight columns": nested(64, 8, "bf16")}
LONG = {
    "nested concats of 19": nested(19),
    "nested concats of 19, eight columns": nested(19, 8, "bf16"),
    "sines in nested concats": nested(20, inside="sin"),
    "350 sines": repeated("sin", 350),
    "350 erfs": repeated("erf", 350),
    "350 logarithms": repeated("log", 350),
    "350 powers": repeated("pow", 350, "binary"),
    "350 quotients": repeated("div", 350, "binary"),
    "350 exponentials": repeated("exp", 350),
    "a sum of nested concats of 64": reduced(64),
    "slices of a concat": outputs_of_slices(),
}


def plan(sinter, chain, *words):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(chain, file)
        file.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.monotonic()
        done = subprocess.run([sinter, "plan", "--target", "h200", "-m", "16", *words, file.name], capture_output=True, text=True,
                              env={**os.environ, "SINTER_CACHE": "off"})
        wall = time.monotonic() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main():
    sinter = sys.argv[1]
    if "UNAVAILABLE" in plan(sinter, repeated("exp", 1))[0].stderr:
        sys.exit(77)
    wrong = 0
    for name, chain in {**SHORT, **(LONG if "all" in sys.argv else {})}.items():
        done, wall, processor = plan(sinter, chain)
        compiled = [int(ms) / 1e3 for ms in re.findall(r"compiled in (\d+) ms", done.stdout)]
        # The time of the slowest kernel: its wall time, and at most the processor time of the whole run.
        longest = min(max(compiled, default=0), processor)
        fine = done.returncode == 0 and longest < MOST_S
        print(f"{name}: {len(compiled)} kernels, the longest {longest:.2f} s, {processor:.2f} s of processor time in all",
              "" if fine else "WRONG " + done.stderr[-400:], flush=True)
        wrong += not fine
    done, wall, processor = plan(sinter, repeated("sin", 50), "--deadline", "0.3")
    fine = "deadline passed" in done.stderr and wall < 1.3
    print(f"a deadline of 0.3 s: back after {wall:.2f} s", "" if fine else "WRONG " + done.stderr[-400:])
    sys.exit(wrong or not fine)


main()
