#!/usr/bin/env python3
"""Models by eager PyTorch, Inductor and backend "sinter" on one GPU: results held against float64, then interleaved times.

    python3 tests/bench/torch_backend/run.py OUT.json [--models NAME,..] [--batches 1,serving] [--rows MODEL@BATCH,..] [--depth N|full|fits]
                                             [--budget SECONDS] [--limit SECONDS] [--jobs N] [--max-autotune | --peer-autotune] [--freezing] [--parts] [--measure] [--cold] [--again]
                                             [--turn FILE]

Runs what OUT.json does not hold yet of this depth, these modes, card and commit, and what failed; ends before the budget does: call it
again until it says that nothing is left. A process
measures one model after another; where one takes the process down, the next has a new one. If there are several, one that measures has the GPU
exclusively; the others wait for it or compile. PYTHONPATH holds bindings/python,
LIBSINTER_PATH names the library. Exits 1 when a result is wrong or a model failed.
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import rows_file
import source_state
from gpu_turn import GpuTurn
from parts import Parts, lines_of

ROUNDS = 6
REPLAY_MS = 8.0
PROFILED = 5  # replays
MOST_ORDERS = 120
WAITS, WORKS = "WAITS\n", "WORKS\n"  # what a process says where it waits for the GPU
FIRST_SECONDS = 25  # that a model is expected to take before one was measured
MOST_WEIGHTS, FEW_LAYERS = 36e9, 4  # bytes in float32 that leave room for others on the card; layers of models that have more
WIDE_ELEMENTS = 1_500_000_000  # of models that are held against float32, as float64 would take their memory


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--models", default="", help="names, by default all")
    parser.add_argument("--batches", default="1,serving")
    parser.add_argument("--rows", default="", help="MODEL@BATCH with commas between, instead of models and batches")
    parser.add_argument("--depth", default="4", help="layers of models that are stacks of equal ones; full: as published; fits: as published where "
                        f"the weights take at most {MOST_WEIGHTS / 1e9:.0f} GB in float32, else {FEW_LAYERS}")
    parser.add_argument("--budget", type=float, default=560, help="seconds")
    parser.add_argument("--limit", type=float, default=240, help="seconds of a model; four times as many with --max-autotune")
    parser.add_argument("--max-autotune", action="store_true", help="Inductor and the backend in this mode too; takes minutes a model")
    parser.add_argument("--peer-autotune", action="store_true", help="also Inductor in this mode, after the others are timed")
    parser.add_argument("--freezing", action="store_true", help="Inductor and the backend with frozen weights too, and the backend with contiguous weights of products of one value, which are then joined")
    parser.add_argument("--parts", action="store_true", help="time each distinct part and Inductor's code for it")
    parser.add_argument("--measure", action="store_true", help="the backend's option of that name: parts are measured, not estimated")
    parser.add_argument("--cold", action="store_true", help="compile times without Triton's kernels of the contestant before")
    parser.add_argument("--again", action="store_true", help="measure what OUT.json holds too")
    parser.add_argument("--jobs", type=int, default=1, help="models at once; one that measures has the GPU alone")
    parser.add_argument("--turn", metavar="FILE", help="shared by calls that run at once: one that measures has the GPU exclusively")
    parser.add_argument("--work", metavar="LOCK", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(arguments)
    until = time.time() + arguments.budget
    found = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    arguments.by = measured_by(arguments)
    wanted = [key for key in keys(arguments) if arguments.again or not held(found.get(key), arguments.by)]
    wanted.sort(key=lambda key: key in found and "error" in found[key])  # what fails again takes no other's time
    left = run_all(wanted, arguments, until, found)
    print(summary(found))
    if left:
        print(f"{len(left)} left; run the command again: {' '.join(left)}")
    sys.exit(1 if any("error" in result or result.get("right") is False for result in found.values()) else 0)


def measured_by(arguments):
    """What a row must have been measured by to stand for another run."""
    modes = {name: getattr(arguments, name) for name in ("depth", "max_autotune", "parts", "cold")}
    modes.update({name: True for name in ("measure", "freezing", "peer_autotune") if getattr(arguments, name)})
    return {**modes, "card": card(), **source_state.of_library()}


def card():
    """The GPU's name, without opening it."""
    try:
        told = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, timeout=60)
        return told.stdout.splitlines()[0].strip()
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "unknown"


def held(row, by):
    """Whether `row` is a measurement by the same."""
    return row is not None and "error" not in row and row.get("by") == by


def keys(arguments):
    """model@batch of everything that is asked for."""
    if arguments.rows:
        names = [row.split("@")[0] for row in arguments.rows.split(",")]
    else:
        names = arguments.models.split(",") if arguments.models else NAMES
    unknown = [name for name in names if name not in NAMES + MORE_NAMES]
    if unknown:
        sys.exit(f"no model {', '.join(unknown)}; there are {' '.join(NAMES + MORE_NAMES)}")
    return arguments.rows.split(",") if arguments.rows else [f"{name}@{batch}" for name in names for batch in arguments.batches.split(",")]


def run_all(wanted, arguments, until, found):
    """Measures `wanted` into `found` and the file; returns models that were not begun, and models that ran out of time."""
    waiting, unfinished, longest = list(wanted), [], [FIRST_SECONDS]
    lock = threading.Lock()
    with tempfile.TemporaryDirectory() as folder:
        turn = arguments.turn or os.path.join(folder, "turn")
        threads = [
            threading.Thread(target=run_some, args=(waiting, unfinished, longest, lock, turn, arguments, until, found))
            for _ in range(max(1, min(arguments.jobs, len(wanted))))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return unfinished + waiting


def run_some(waiting, unfinished, longest, lock, turn, arguments, until, found):
    """One process's share: measures the first of `waiting` until none is left, or no time."""
    worker = None
    limit = arguments.limit * (4 if arguments.max_autotune else 1)
    while True:
        with lock:
            if not waiting or until - time.time() <= longest[0] * 1.2 + 5:
                break
            key, began = waiting.pop(0), time.time()
        worker = worker or Worker(turn)
        result = worker.measure(key, limit, until - 3)
        with lock:
            cut = result is None and until - time.time() < 5
            if cut:  # it is the first of the next call
                unfinished.append(key)
            found[key] = result or {"error": worker.told() or f"not done after {time.time() - began:.0f} s"}
            if "error" in found[key]:
                found[key] = {**worker.so_far, **found[key]}
                found[key] = {**found[key], "cut": True} if cut else without_the_last(found[key])
            found[key].update(wall_s=round(time.time() - began, 1), by=arguments.by)
            rows_file.write(str(arguments.out), found)
            print(lines(key, found[key]), flush=True)
            longest[0] = max(longest[0], sum(found[key].get("seconds", {}).values()))
        if cut:
            break
        if result is None:
            worker.kill()
            worker = None
    if worker is not None:
        worker.kill()


def without_the_last(row):
    """Where only max-autotune did not end, the row with the others' times, and why in `without`; any other row as it is."""
    if "us" not in row.get("variants", {}).get("sinter", {}):
        return row
    row = {**row, "without": {"max_autotune": row["error"].strip().splitlines()[-1][:200]}}
    del row["error"]
    return row


class Worker:
    """A process that measures model after model: what imports torch, warms the compilers up and opens the GPU does so once."""

    def __init__(self, turn):
        command = [sys.executable, *sys.argv, "--work", turn]
        self.errors = tempfile.NamedTemporaryFile("w+", prefix="torch_backend.")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.results = queue.Queue()
        self.so_far = {}
        self._waited, self._waits_since = 0.0, None
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            if line.startswith("RESULT "):
                self.results.put(json.loads(line[len("RESULT ") :]))
            elif line.startswith("SO FAR "):
                self.so_far = json.loads(line[len("SO FAR ") :])
            elif line == WAITS:
                self._waits_since = time.time()
            elif line == WORKS and self._waits_since is not None:
                self._waited, self._waits_since = self.waited(), None
        self.results.put(None)

    def waited(self):
        """Seconds that the process waited for the GPU, so far."""
        since = self._waits_since
        return self._waited + (time.time() - since if since is not None else 0)

    def measure(self, key, seconds, until):
        """The result; None where the process ended, had not answered in `seconds` without what it waited for the GPU, nor by `until`. What
        it had by then is in ``so_far``."""
        self.so_far = {}
        began, before = time.time(), self.waited()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(key + "\n")
            self.process.stdin.flush()
            while True:
                worked = time.time() - began - (self.waited() - before)
                left = min(seconds - worked, until - time.time())
                try:
                    return self.results.get(timeout=max(min(left, 1), 0.01))
                except queue.Empty:
                    if left <= 0:
                        return None

    def told(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1)  # where it has closed its output, it is about to end
        self.errors.seek(0)
        return self.errors.read()[-1500:].strip() if self.process.poll() is not None else ""

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()


def lines(key, result):
    return "\n".join([line(key, result), *map(lines_of, result.get("timed_parts", ()))])


def line(key, result):
    if "skipped" in result or "error" in result:  # of which some contestants may have been run
        return f"{key}: " + (result.get("skipped") or result["error"].strip().splitlines()[-1])
    if "variants" not in result:  # only parts
        return f"{key}: {result['taken']} parts; {result['wall_s']} s of which {result['seconds']}"
    times = ", ".join(
        f"{v} {w['us']:.1f} us (error {w['error']:.1e}, {w['kernels']} kernels, {w['compile_s']} s)" for v, w in result["variants"].items()
    )
    return f"{key}: {times}; {result['taken']} parts; right: {result['right']}; {result['wall_s']} s of which {result['seconds']}"


def ratio(result):
    """Time of Inductor's better mode by Sinter's."""
    times = {name: variant["us"] for name, variant in result["variants"].items()}
    return min(times[name] for name in ("inductor", "max_autotune") if name in times) / times["sinter"]


def summary(found):
    measured = {key: result for key, result in found.items() if "variants" in result and "error" not in result}
    ratios = {key: ratio(result) for key, result in measured.items()}
    told = [f"{len(found)} of {2 * len(NAMES)}: {len(measured)} measured, {sum('skipped' in r for r in found.values())} skipped"]
    if ratios:
        mean = math.exp(statistics.mean(map(math.log, ratios.values())))
        least = sorted(ratios.items(), key=lambda item: item[1])[:3]
        told.append(f"Inductor / Sinter {mean:.3f} in the geometric mean, least " + ", ".join(f"{k} {r:.2f}" for k, r in least))
    wrong = [key for key, result in found.items() if "error" in result or result.get("right") is False]
    told.append(f"{len(wrong)} wrong or failed: {' '.join(wrong)}" if wrong else "none wrong, none failed")
    return "\n".join(told)


def work(arguments):
    """Measures the models whose names come by the standard input."""
    import gc

    import torch
    from torch._inductor.async_compile import AsyncCompile

    if arguments.jobs > 1:
        torch._inductor.config.compile_threads = max(1, (os.cpu_count() or 1) // arguments.jobs)
    AsyncCompile.warm_pool()  # its processes start while the first model is made
    sys.path.insert(0, os.path.dirname(__file__))
    from models import MODELS, MORE_MODELS

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    turn = GpuTurn(arguments.work, torch.cuda.synchronize, tell_wait)
    turn.take()
    warm_up()
    turn.give()
    for key in map(str.strip, sys.stdin):
        name, _, batch = key.partition("@")
        make, serving = {**MODELS, **MORE_MODELS}[name]
        turn.take()
        try:
            torch.manual_seed(1)
            seconds = Seconds(turn)
            layers = layers_of(torch, make, arguments.depth)
            with torch.no_grad(), torch.device("cuda"):
                model, inputs = make(layers, serving if batch == "serving" else int(batch))
            if getattr(make, "channels_last", False):
                model = model.to(memory_format=torch.channels_last)
            made = model, inputs
        except (ImportError, AttributeError, TypeError) as error:  # the machine's packages have no such model
            result = {"skipped": f"{type(error).__name__}: {error}"}
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"[-1500:]}
        else:
            del model, inputs
            try:
                result = {"depth": layers or "full", **measure(*made, seconds, arguments, turn)}
            except Exception as error:
                result = {"error": f"{type(error).__name__}: {error}"[-1500:]}
            del made
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        turn.give()
        print("RESULT " + json.dumps(result), flush=True)


def layers_of(torch, make, depth):
    """Layers of a stack of equal ones; None: as many as published."""
    if depth != "fits":
        return None if depth == "full" else int(depth)
    try:
        with torch.no_grad(), torch.device("meta"):
            model, _ = make(None, 1)
    except Exception:  # what cannot be made without numbers: none of the large ones
        return None
    return None if sum(4 * p.numel() for p in model.parameters()) <= MOST_WEIGHTS else FEW_LAYERS


def tell_wait(waits):
    """To who counts the seconds of a model."""
    print(WAITS if waits else WORKS, end="", flush=True)


class Seconds:
    """Where a model's time goes, without what it waits for the GPU."""

    def __init__(self, turn):
        self.turn, self.told = turn, {}
        self.at = self.now()

    def now(self):
        return time.time() - self.turn.waited

    def mark(self, name):
        took = self.now() - self.at
        self.told[name] = round(self.told.get(name, 0) + took, 1)
        self.at += took
        return took


def warm_up():
    """What the first model's making and calls would load."""
    import timm  # noqa: F401
    import torch
    import transformers  # noqa: F401

    with torch.device("cuda"), torch.no_grad():
        layer = torch.nn.TransformerEncoderLayer(64, 4, activation="gelu")
        image = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).eval()
        rows, ids = torch.nn.Embedding(16, 64), torch.randint(0, 16, (2, 16))
        for dtype in (torch.float64, torch.float32, torch.bfloat16):
            x = rows.to(dtype)(ids)
            layer.to(dtype)(x).float().norm().item()
            image.to(dtype)(torch.randn(1, 8, 16, 16).to(dtype))
            torch.nn.functional.scaled_dot_product_attention(x, x, x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
        ids.add_(1)
        torch.cuda.synchronize()


def measure(model, inputs, seconds, arguments, turn, peer=None):
    """Everything of one model, on a GPU that nobody measures on meanwhile but while it is compiled. `peer`: a contestant of another process,
    an ``xla_peer.XlaInRow``."""
    import torch

    seconds.mark("make")
    wide, expected = reference(model.eval(), inputs)
    model = model.to(torch.bfloat16)  # in place: one copy of the weights
    inputs = tuple(to(x, torch.bfloat16) for x in inputs)
    seconds.mark("exact")
    torch.cuda.empty_cache()
    if peer:
        peer.start(model, inputs, {"logits": expected}, training=False)
        seconds.mark("xla")
    parts = Parts()
    variants, reports, tuned = variants_of(model, arguments, turn, parts)
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "variants": {}}
    result["held_against"] = str(wide).replace("torch.", "")
    graphs = {}

    def ready(variant, compiled):
        with torch.no_grad():
            return made_ready(variant, compiled, inputs, expected, seconds, turn)

    def time_all():
        with turn.alone():
            times = in_turns(graphs)
        for variant, us in times.items():
            result["variants"][variant]["us"] = us
        seconds.mark("times")

    def tell():
        print("SO FAR " + json.dumps({**result, "seconds_so_far": seconds.told}), flush=True)

    for variant, compiled in variants.items():
        graphs[variant], result["variants"][variant] = ready(variant, compiled)
        tell()
    if peer:
        peer.join(result, graphs, bound_of(result["variants"]), turn)
    time_all()
    if peer:
        tell_whole(result, graphs, turn)
        seconds.mark("profile")
    result["right"] = are_right(result["variants"])
    if arguments.peer_autotune:
        tell()  # the times of the others stand where it does not end
        try:
            graph, told = ready("max_autotune", tuned)
            if are_right({**result["variants"], "max_autotune": told}) or not result["right"]:
                graphs["max_autotune"], result["variants"]["max_autotune"] = graph, told
                time_all()
            else:
                result.setdefault("without", {})["max_autotune"] = f"wrong: error {told['error']:.1e}"
        except Exception as error:
            turn.take()
            result.setdefault("without", {})["max_autotune"] = f"{type(error).__name__}: {error}"[:200]
    taken = [part for report in reports for part in report.taken]
    result["taken"] = len(taken)
    result["parts"] = [
        {"ops": len(p.nodes), "limit_us": p.limit_us, "predicted_us": p.plan and p.plan.predicted_us, "chain": p.made.chain.digest[:12]}
        for p in taken
    ]
    result["left"] = sorted({f"{op}: {why}" for report in reports for op, why in report.left})
    if arguments.parts:
        result["timed_parts"] = parts.timed(taken, turn)
        seconds.mark("parts")
    result["seconds"] = seconds.told
    return result


def made_ready(variant, compiled, inputs, expected, seconds, turn):
    """A contestant's graph, and its fields of the results file."""
    import torch

    torch._dynamo.reset()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    if variant != "eager":
        turn.give()  # while Dynamo reads the model; what compiles its graph takes it at its end
    y = compiled(*inputs)
    turn.take()
    torch.cuda.synchronize()
    compile_s = seconds.mark(variant)
    graph, captured = capture(compiled, inputs)
    graph.replay()
    told = {
        "compile_s": round(compile_s, 1),
        "error": relative(captured.float(), expected),
        "first_error": relative(y.float(), expected),
        "kernels": kernels(graph),
        "peak_mb": (torch.cuda.max_memory_allocated() - before) // 2**20,  # in addition to weights and inputs
        "captured": isinstance(graph, torch.cuda.CUDAGraph),
    }
    seconds.mark("capture")
    return graph, told


def are_right(variants):
    return all(max(told["error"], told["first_error"]) <= bound_of(variants) for told in variants.values())


def bound_of(variants):
    """What a contestant may be off, by what eager PyTorch is."""
    return 2 * variants["eager"]["error"] + 1e-3


def reference(model, inputs):
    """The type that the model's result is held against, and that result; float32 where a kernel has no float64."""
    import torch

    small = sum(p.numel() for p in model.parameters()) < WIDE_ELEMENTS
    with torch.no_grad():
        for wide in (torch.float64, torch.float32) if small else (torch.float32,):
            try:
                return wide, model.to(wide)(*(to(x, wide) for x in inputs)).float()
            except RuntimeError as error:
                if wide is torch.float32 or isinstance(error, torch.OutOfMemoryError):
                    raise


def to(x, dtype):
    return x.to(dtype) if x.is_floating_point() else x


def variants_of(model, arguments, turn, parts):
    """Compiled by each contestant, the reports of the backend, and Inductor by max-autotune; `parts` keeps what the backend takes. Graphs come from no cache, as the pass must see them; Triton's
    kernels may, unless --cold."""
    import torch
    from torch._inductor.compile_fx import compile_fx

    from sinter.torch.backend.graph_pass import SinterPass
    from sinter.torch.backend import compile_with, split_options

    own, _ = split_options(None, {"prepare": "block", "measure": arguments.measure})
    reports = []
    options = {"force_disable_caches": True} if arguments.cold else {"fx_graph_cache": False}
    torch._functorch.config.enable_autograd_cache = False

    def sinter(options_of_sinter=own, told=None, **more):
        def backend(gm, example_inputs):
            with turn.given(), parts.kept():
                return compile_with(SinterPass(options_of_sinter, told), gm, example_inputs, {**options, **more})

        return torch.compile(model, backend=backend)

    def inductor(**more):
        def backend(gm, example_inputs):
            with turn.given():
                return compile_fx(gm, example_inputs, config_patches={**options, **more})

        return torch.compile(model, backend=backend)

    variants = {"eager": model, "inductor": inductor(), "sinter": sinter(told=reports)}
    tuned = dict(max_autotune=True, coordinate_descent_tuning=True)
    if arguments.max_autotune:
        variants["max_autotune"] = inductor(**tuned)
        variants["sinter_max_autotune"] = sinter(own._replace(measure=True), **tuned)
    if arguments.freezing:
        variants["inductor_frozen"] = frozen(inductor())
        variants["sinter_frozen"] = frozen(sinter())
        variants["sinter_beside"] = laid_beside(model, sinter())
    return variants, reports, inductor(**tuned)


def frozen(compiled):
    """With weights that are constants of the graph; Dynamo asks the configuration itself."""
    import torch

    def call(*inputs):
        with torch._inductor.config.patch(freezing=True):
            return compiled(*inputs)

    return call


def laid_beside(model, compiled):
    """With weights of products of one value contiguous in memory, once the others ran."""
    from sinter.torch import lay_beside

    before = [parameter.detach() for parameter in model.parameters()]  # which the graphs that were captured by then read

    def call(*inputs):
        assert before
        lay_beside(model)
        return compiled(*inputs)

    return call


class Called:
    """A model that no CUDA graph holds, as one."""

    def __init__(self, f, inputs):
        self.replay = lambda: f(*inputs)


def capture(f, inputs):
    """A CUDA graph of a call, and its result; where the model waits for the device, the call itself."""
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            f(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            result = f(*inputs)
    except RuntimeError:
        torch.cuda.synchronize()
        return Called(f, inputs), f(*inputs)
    return graph, result


def kernels(graph):
    return profiled(graph, 1)["kernels"]


def profiled(graph, replays=PROFILED):
    """Kernels and copies of a replay, and the sum of their microseconds."""
    import torch

    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(replays):
            graph.replay()
        torch.cuda.synchronize()
    events = [e for e in profile.key_averages() if e.device_type == torch.autograd.DeviceType.CUDA]
    return {"kernels": sum(e.count for e in events) // replays, "us": sum(e.self_device_time_total for e in events) / replays}


def tell_whole(result, graphs, turn):
    """Adds each contestant's kernels and copies of a whole replay, and the sum of their times, as `whole`."""
    with turn.alone():
        for name, graph in graphs.items():
            told = result["variants"][name]
            told["whole"] = graph.profiled() if hasattr(graph, "profiled") else profiled(graph)
            told.setdefault("kernels", told["whole"].get("kernels"))


def in_turns(graphs):
    """Median microseconds of a replay of each graph, measured one after another in rounds; in every order, or the most that there is time
    for, as what drew much power before leaves a lower clock."""
    once = {name: timed(graph, 3) for name, graph in graphs.items()}
    times = {name: [] for name in graphs}
    orders = list(itertools.permutations(graphs))
    orders = orders[:: max(1, len(orders) // MOST_ORDERS)]
    for i in range(max(1, round(ROUNDS / len(orders))) * len(orders)):
        for name in orders[i % len(orders)]:
            times[name].append(timed(graphs[name], max(3, int(REPLAY_MS * 1e3 / max(once[name], 1)))))
    return {name: statistics.median(each) for name, each in times.items()}


def timed(graph, count):
    import torch

    if hasattr(graph, "timed"):  # of another process, which has a clock of its own
        return graph.timed(count)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3 / count


def relative(result, expected):
    return ((result - expected).double().norm() / expected.double().norm()).item()


def _names_of(part):
    return [line.split('"')[1] for line in part.splitlines() if line.startswith('    "')]


#: As ``models.MODELS`` and ``models.MORE_MODELS``; ``models`` imports torch.
NAMES, MORE_NAMES = map(_names_of, (pathlib.Path(__file__).parent / "models.py").read_text().split("MODELS = {")[1:3])

if __name__ == "__main__":
    main()
