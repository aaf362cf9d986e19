#!/usr/bin/env python3
"""Models by eager PyTorch, Inductor and backend "sinter" on one GPU: results held against float64, then times in turns.

    python3 tests/bench/torch_backend/run.py OUT.json [--models NAME,..] [--layers N] [--max-autotune] [--parts] [--seconds S]

Each model runs in a process of its own under a time limit, and its figures are in OUT.json as soon as they are there; a model
that is in it already is not run again, so that a run that was cut off goes on. PYTHONPATH holds bindings/python, LIBSINTER_PATH
names the library. Exits 1 when a result is wrong.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

MODEL_SECONDS = 150
ROUNDS = 9
REPLAY_MS = 20.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--models", default="bert_base,decode_b32,prefill_512,vit_b16,resnet50")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--max-autotune", action="store_true", help="Inductor in this mode too; takes minutes a model")
    parser.add_argument("--parts", action="store_true", help="time each distinct part beside Inductor's code for it")
    parser.add_argument("--seconds", type=float, default=340, help="begin no model that might end later than this")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        return print("RESULT " + json.dumps(measure(arguments.one, arguments)))
    began = time.time()
    found = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for name in arguments.models.split(","):
        left = arguments.seconds - (time.time() - began)
        if "variants" in found.get(name, {}):
            continue
        if left < 20:
            print(f"{name}: no time left; run the command again")
            break
        found[name] = in_a_process(name, min(left, MODEL_SECONDS * (4 if arguments.max_autotune else 1)))
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
        print(line(name, found[name]), flush=True)
    wrong = [name for name, result in found.items() if not result.get("right", False)]
    print(f"{len(found)} models, {len(wrong)} wrong or not measured: {' '.join(wrong)}")
    sys.exit(1 if wrong else 0)


def in_a_process(name, seconds):
    command = [sys.executable, __file__, *sys.argv[1:], "--one", name]
    began = time.time()
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {seconds:.0f} s"}
    told = [line for line in ended.stdout.splitlines() if line.startswith("RESULT ")]
    if not told:
        return {"error": ended.stderr[-1500:]}
    return {**json.loads(told[-1][len("RESULT ") :]), "wall_s": round(time.time() - began, 1)}


def line(name, result):
    if "error" in result:
        return f"{name}: {result['error'].strip().splitlines()[-1]}"
    times = ", ".join(f"{v} {w['us']:.1f} us (error {w['error']:.1e}, {w['kernels']} kernels)" for v, w in result["variants"].items())
    return f"{name}: {times}; {result['taken']} parts; right: {result['right']}; {result['wall_s']} s"


def measure(name, arguments):
    """Everything of one model."""
    import torch

    sys.path.insert(0, os.path.dirname(__file__))
    from models import MODELS

    torch.manual_seed(1)
    model, inputs = MODELS[name](arguments.layers)
    exact = model.eval().to("cuda", torch.float64)
    wide = tuple(to(x, torch.float64) for x in inputs)
    with torch.no_grad():
        expected = exact(*wide).float()
    model = exact.to(torch.bfloat16)  # in place: one copy of the weights
    inputs = tuple(to(x, torch.bfloat16) for x in inputs)
    del wide
    variants, reports = variants_of(model, arguments)
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "variants": {}, "layers": arguments.layers}
    graphs = {}
    with torch.no_grad():
        for variant, compiled in variants.items():
            torch._dynamo.reset()
            torch.cuda.reset_peak_memory_stats()
            began = time.time()
            y = compiled(*inputs)
            torch.cuda.synchronize()
            compile_s = time.time() - began
            graphs[variant], captured = capture(compiled, inputs)
            graphs[variant].replay()
            result["variants"][variant] = {
                "compile_s": round(compile_s, 1),
                "error": relative(captured.float(), expected),
                "first_error": relative(y.float(), expected),
                "kernels": kernels(graphs[variant]),
                "peak_mb": torch.cuda.max_memory_allocated() // 2**20,
            }
    for variant, us in in_turns(graphs).items():
        result["variants"][variant]["us"] = us
    bound = 2 * result["variants"]["eager"]["error"] + 1e-3
    result["right"] = all(max(v["error"], v["first_error"]) <= bound for v in result["variants"].values())
    taken = [part for report in reports for part in report.taken]
    result["taken"] = len(taken)
    result["parts"] = [
        {"ops": len(p.nodes), "limit_us": p.limit_us, "predicted_us": p.plan and p.plan.predicted_us, "chain": p.made.chain.digest[:12]}
        for p in taken
    ]
    result["left"] = sorted({f"{op}: {why}" for report in reports for op, why in report.left})
    if arguments.parts:
        result["timed_parts"] = timed_parts(taken)
    return result


def to(x, dtype):
    return x.to("cuda", dtype) if x.is_floating_point() else x.cuda()


def variants_of(model, arguments):
    import torch
    from sinter.torch._graph_pass import SinterPass
    from sinter.torch.backend import compile_with, split_options

    own, _ = split_options(None, {"prepare": "block"})
    reports = []

    def sinter(gm, example_inputs):
        return compile_with(SinterPass(own, reports), gm, example_inputs, {"force_disable_caches": True})

    variants = {"eager": model, "inductor": torch.compile(model)}
    if arguments.max_autotune:
        variants["max_autotune"] = torch.compile(model, mode="max-autotune-no-cudagraphs")
    variants["sinter"] = torch.compile(model, backend=sinter)
    return variants, reports


def capture(f, inputs):
    """A CUDA graph of a call, and its result."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            f(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = f(*inputs)
    return graph, result


def kernels(graph):
    import torch

    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graph.replay()
        torch.cuda.synchronize()
    return sum(e.count for e in profile.key_averages() if e.device_type == torch.autograd.DeviceType.CUDA)


def in_turns(graphs):
    """Median microseconds of a replay of each graph, measured one after another in rounds."""
    import torch

    once = {name: timed(graph, 3) for name, graph in graphs.items()}
    times = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            times[name].append(timed(graph, max(3, int(REPLAY_MS * 1e3 / max(once[name], 1)))))
    return {name: statistics.median(each) for name, each in times.items()}


def timed(graph, count):
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3 / count


def timed_parts(taken):
    """Each distinct part: its plan and Inductor's code for the same chain, in CUDA graphs, in turns."""
    import torch
    from sinter.torch import _run_chain

    found = []
    for part in {p.made.chain.digest: p for p in taken}.values():
        text = _run_chain.pack(part.made.chain)
        it = _run_chain.carried(text)
        inputs = []
        for info in part.made.chain.inputs(part.m):
            made = torch.empty_strided(info.shape, info.strides, dtype=_run_chain._dtypes[str(info.dtype)], device="cuda")
            inputs.append(made.copy_(torch.randn(info.shape, device="cuda") / 16))
        compiled = torch.compile(it.by_torch)
        with torch.no_grad():
            graphs = {
                "sinter": capture(lambda *x: torch.ops.sinter.run_chain(list(x), part.m, text, "block", 0.0), inputs)[0],
                "inductor": capture(lambda *x: compiled(list(x), part.m), inputs)[0],
            }
        plan = part.plan and part.plan.predicted_us
        found.append({"chain": part.made.chain.digest[:12], "predicted_us": plan, "limit_us": part.limit_us, **in_turns(graphs)})
    return found


def relative(result, expected):
    return ((result - expected).double().norm() / expected.double().norm()).item()


if __name__ == "__main__":
    main()
