#!/usr/bin/env python3
"""torch.compile and Sinter called back to back without a CUDA graph, host time included.

Usage: peers_eager.py [--library libsinter.so] [--ids G1,S8] [--calls 200] [--cold] [--out FILE]. Needs a GPU and PyTorch.

A figure is the wall clock of `calls` calls and one wait for the device, over `calls`; the median of 5. torch.compile is in
its default mode, with [out, in] and with [in, out] weights; the faster one counts. Sinter goes through the C ABI. Both get
the same weights; with --cold they rotate over more than 240 MB. Every result is compared with float64 products.
"""

import argparse
import ctypes
import glob
import json
import math
import os
import statistics
import sys
import time

import rows_file
import source_state

HERE = os.path.dirname(os.path.abspath(__file__))
LISTS = ["gemm_chains.txt", "gated_ffn.txt"]
PAPER = {"G": 3.1}  # FlashFuser over PyTorch, GEMM chains; it prints no number for gated FFNs
ROTATION_BYTES = 240e6
REPEATS = 5
BOUND = 2e-2  # on the relative error; torch rounds C and the gate's product


def read_problems(ids):
    """[(id, line, fields)] of the problem lists."""
    problems = []
    for name in LISTS:
        with open(os.path.join(HERE, "problems", name), encoding="utf-8") as file:
            for line in file:
                words = line.split("#")[0].split()
                if not words or (ids and words[0] not in ids):
                    continue
                fields = dict(word.split("=") for word in words[2:])
                fields["kind"] = words[1]
                problems.append((words[0], " ".join(words), fields))
    return problems


class Sinter:
    """The few calls of the C ABI that are needed here."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.sinter_error_get_message.restype = ctypes.c_char_p
        self.library.sinter_x_text_get.restype = ctypes.c_char_p
        self.library.sinter_plan_get_workspace_size.restype = ctypes.c_uint64
        self.context = self.made("sinter_context_create", None)

    def call(self, name, *arguments):
        error = ctypes.c_void_p()
        status = getattr(self.library, name)(*arguments, ctypes.byref(error))
        if status != 0:
            message = self.library.sinter_error_get_message(error).decode()
            raise RuntimeError(f"{name}: {message} ({status})")

    def made(self, name, *arguments):
        """The object that a call makes: its last parameter but the error."""
        result = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(result))
        return result

    def prepare(self, line):
        chain, m = ctypes.c_void_p(), ctypes.c_int64()
        self.call("sinter_x_chain_from_text", line.encode(), ctypes.byref(chain), ctypes.byref(m), None)
        return self.made("sinter_prepare", self.context, chain, m, None), m

    def name_of(self, plan):
        return json.loads(self.library.sinter_x_text_get(self.made("sinter_x_plan_to_json", plan)))["name"]

    def bind(self, plan, pointers, workspace):
        buffers = (ctypes.c_uint64 * len(pointers))(*pointers)
        return self.made("sinter_plan_bind", plan, ctypes.c_uint32(len(pointers)), buffers, ctypes.c_uint64(workspace))

    def launcher(self, binding, m, stream):
        """A function of no arguments that launches; errors raise."""
        launch = self.library.sinter_binding_launch
        arguments = (binding, ctypes.c_void_p(stream), ctypes.c_uint32(1), ctypes.byref(m), ctypes.c_uint32(0), None)

        def run():
            status = launch(*arguments)
            if status != 0:
                raise RuntimeError(f"sinter_binding_launch: {status}")

        return run


def weights_of(torch, fields):
    """One set of [out, in] weights in the order of the chain's inputs."""
    n, k, l = (int(fields[key]) for key in "nkl")
    shapes = [(n, k)] * (2 if fields["kind"] == "gated_ffn" else 1) + [(l, n)]
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[fields["dtype"]]
    return [(torch.rand(s, device="cuda") * 2 - 1).mul_(math.sqrt(3 / s[1])).to(dtype) for s in shapes]


def torch_function(torch, fields, layout):
    """x and weights to the result; a new function every time, so that nothing compiled before is in the way."""
    functional = torch.nn.functional
    activation = {"relu": functional.relu, "silu": functional.silu}[fields["act"]]
    product = functional.linear if layout == "oi" else torch.matmul
    if fields["kind"] == "gated_ffn":
        return lambda x, gate, up, down: product(activation(product(x, gate)) * product(x, up), down)
    return lambda x, w1, w2: product(activation(product(x, w1)), w2)


def wall_us(torch, runs, calls):
    """Microseconds of one call; call i is runs[i % len(runs)]."""
    for run in runs[:3] + runs[-3:]:
        run()
    torch.cuda.synchronize()
    order = [runs[i % len(runs)] for i in range(calls)]
    figures = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for run in order:
            run()
        torch.cuda.synchronize()
        figures.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(figures)


def relative_error(torch, fields, x, weights, result):
    function = torch_function(torch, fields, "oi")
    wanted = function(x.double(), *[w.double() for w in weights])
    return ((result.double() - wanted).norm() / wanted.norm()).item()


def measure_torch(torch, fields, x, sets, calls):
    figures = {}
    for layout in ("oi", "io"):
        torch._dynamo.reset()
        function = torch.compile(torch_function(torch, fields, layout), dynamic=False)
        own = sets if layout == "oi" else [[w.t().contiguous() for w in weights] for weights in sets]
        error = relative_error(torch, fields, x, sets[0], function(x, *own[0]))
        if not error < BOUND:
            raise RuntimeError(f"torch.compile {layout} is wrong: {error}")
        runs = [lambda weights=weights: function(x, *weights) for weights in own]
        figures[layout] = wall_us(torch, runs, calls)
    return figures


def measure_sinter(torch, sinter, line, fields, x, sets, calls):
    plan, m = sinter.prepare(line)
    out = torch.full((int(fields["m"]), int(fields["l"])), float("nan"), device="cuda", dtype=x.dtype)
    size = sinter.library.sinter_plan_get_workspace_size(plan)
    workspace = torch.zeros(max(size, 128), device="cuda", dtype=torch.uint8)
    stream = torch.cuda.current_stream().cuda_stream
    sinter.call("sinter_plan_init_workspace", plan, ctypes.c_uint64(workspace.data_ptr()), ctypes.c_uint64(size),
                ctypes.c_void_p(stream))
    runs = []
    for weights in sets:
        pointers = [tensor.data_ptr() for tensor in [x, *weights, out]]
        runs.append(sinter.launcher(sinter.bind(plan, pointers, workspace.data_ptr() if size else 0), m, stream))
    runs[0]()
    torch.cuda.synchronize()
    error = relative_error(torch, fields, x, sets[0], out)
    if not error < BOUND:
        raise RuntimeError(f"Sinter is wrong: {error}")
    return wall_us(torch, runs, calls), sinter.name_of(plan), error


def measure(torch, sinter, problem, calls, cold):
    name, line, fields = problem
    torch.manual_seed(1)
    first = weights_of(torch, fields)
    bytes_of_set = sum(w.numel() * w.element_size() for w in first)
    count = max(2, int(ROTATION_BYTES / bytes_of_set) + 1) if cold else 1
    sets = [first] + [[w.clone() for w in first] for _ in range(count - 1)]
    x = (torch.rand((int(fields["m"]), int(fields["k"])), device="cuda") * 2 - 1).to(first[0].dtype)
    calls = max(calls, count)
    peer = measure_torch(torch, fields, x, sets, calls)
    us, plan, error = measure_sinter(torch, sinter, line, fields, x, sets, calls)
    return {"id": name, "problem": line, "torch_compile_oi_us": peer["oi"], "torch_compile_io_us": peer["io"],
            "sinter_us": us, "plan": plan, "rel_error": error, "speedup": min(peer.values()) / us}


def averages(rows):
    """{group: {arithmetic, geometric, paper}} of the speedups."""
    result = {}
    for group in ("G", "S"):
        speedups = [row["speedup"] for row in rows if row["id"].startswith(group)]
        if speedups:
            result[group] = {"problems": len(speedups), "arithmetic": statistics.mean(speedups),
                             "geometric": statistics.geometric_mean(speedups), "paper": PAPER.get(group)}
    return result


def find_library():
    root = os.path.dirname(os.path.dirname(HERE))
    for pattern in ("lib/libsinter.so*", "build/lib/libsinter.so", "bundle/lib/libsinter.so*"):
        found = sorted(glob.glob(os.path.join(root, pattern)))
        if found:
            return found[0]
    return "libsinter.so"


def write(path, torch, arguments, rows):
    result = {"machine": {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
                          "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())},
              **source_state.of_tree(os.path.dirname(os.path.dirname(HERE))), "calls": arguments.calls, "weights": "cold" if arguments.cold else "hot",
              "rows": rows, "averages": averages(rows)}
    rows_file.write(path, result)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", default=find_library())
    parser.add_argument("--ids", default="", help="only these, with commas between")
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--cold", action="store_true", help="rotate the weights over more than 240 MB")
    parser.add_argument("--out", default="peers_eager.json")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    problems = read_problems([name for name in arguments.ids.split(",") if name])
    sinter = Sinter(arguments.library)
    rows, wrong = [], 0
    for problem in problems:
        try:
            row = measure(torch, sinter, problem, arguments.calls, arguments.cold)
        except RuntimeError as error:
            print(f"{problem[0]:4} {error}", flush=True)
            wrong += 1
            continue
        rows.append(row)
        print("{id:4} torch.compile oi {torch_compile_oi_us:7.2f} io {torch_compile_io_us:7.2f} "
              "Sinter {sinter_us:7.2f} ({plan}) speedup {speedup:.2f} error {rel_error:.1e}".format(**row), flush=True)
        write(arguments.out, torch, arguments, rows)
    for group, mean in averages(rows).items():
        paper = mean["paper"] or "not printed"
        print(f"{group}: arithmetic mean {mean['arithmetic']:.2f}, geometric {mean['geometric']:.2f} of {mean['problems']}; "
              f"FlashFuser over PyTorch: {paper}")
    print(f"wrote {arguments.out}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
