#!/usr/bin/env python3
"""Steps of training by eager PyTorch, Inductor and backend "sinter" on one GPU: gradients held against float32, then interleaved times, then losses.

    python3 tests/bench/torch_backend/training.py OUT.json [--rows NAME,..] [--budget SECONDS] [--limit SECONDS] [--jobs N] [--parts] [--xla] [--turn FILE]

Rows: MODEL@BATCH is a step: forward and loss under autocast to bf16, backward, fused AdamW, weights in float32; +dropout with dropout of a tenth;
MODEL@BATCH:infer the model with bf16 weights (`run.py` measures it); MODEL:adamw only the optimiser; MODEL@BATCH:ungated a step, by the backend
without its gate too. With --parts, of each row but :adamw (also MODEL@BATCH:infer:ungated), what the gate knows: each distinct part, forward and backward, kernel by kernel beside
Inductor's code for it. With --xla the same models in JAX too, each as one `jax.jit` (`xla_peer.py`). Runs what OUT.json does not hold yet of this card and commit, and what failed; ends before the budget does: call it again
until it says that nothing is left. PYTHONPATH holds bindings/python, LIBSINTER_PATH names the library. Exits 1 when a gradient or a curve is wrong, or a row failed.
"""

import argparse
import contextlib
import copy
import json
import math
import os
import pathlib
import statistics
import sys
import time
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import run
import source_state
from gpu_turn import GpuTurn
from parts import Parts
from xla_peer import XlaInRow

DROPOUT = 0.1
STEPS = 200  # of a curve
DATA = 4  # batches that a curve goes round
RATE = 1e-4  # of a curve's steps after the first ones
WARM_UP = 40  # steps in which the rate grows to it
NO_LIMIT_US = 1e9  # as the estimate of a part that is taken whatever it gains
CURVE = 3.0  # times the noise, which a curve may be off eager's
CURVE_FLOOR = 2e-3  # of the mean loss, where the noise is less
MOST_NOISE = 0.1  # of what eager learns, above which a curve tells nothing

#: Rows, cheap and telling ones first.
ROWS = (
    "bert_base:adamw gpt2@4 bert_base@8 asr@8:infer resnet50:adamw bert_base@32:infer transformer@32 asr@8 vit_b16@32 dien@256:infer bert_base@32 "
    "resnet50@32 crnn@8:infer crnn_cudnn@8 bert_base@8+dropout dien@256 crnn@8 gpt2@4+dropout transformer@32+dropout crnn_cudnn@8:infer"
).split()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rows", default="", help="by default all")
    parser.add_argument("--budget", type=float, default=560, help="seconds")
    parser.add_argument("--limit", type=float, default=280, help="seconds of a row")
    parser.add_argument("--again", action="store_true", help="measure what OUT.json holds too")
    parser.add_argument("--jobs", type=int, default=1, help="rows at once; one that measures has the GPU alone")
    parser.add_argument("--parts", action="store_true", help="each distinct part of rows and Inductor's code for it, instead of whole rows")
    parser.add_argument("--xla", action="store_true", help="XLA too, on models that have a form in JAX")
    parser.add_argument("--xla-seconds", type=float, default=40, help="of compiling a row, after which no further form or setting of XLA is tried")
    parser.add_argument("--turn", metavar="FILE", help="shared by calls that run at once: one that measures has the GPU exclusively")
    parser.add_argument("--work", metavar="LOCK", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.max_autotune = arguments.peer_autotune = arguments.freezing = arguments.measure = arguments.cold = False  # of run.py
    if arguments.work:
        return work(arguments)
    until = time.time() + arguments.budget
    found = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    arguments.by = {"card": run.card(), **source_state.of_library(), **{name: True for name in ("parts", "xla") if getattr(arguments, name)}}
    rows = arguments.rows.split(",") if arguments.rows else ROWS
    wanted = [row for row in rows if arguments.again or not run.held(found.get(row), arguments.by)]
    wanted.sort(key=lambda row: row in found and "error" in found[row])
    left = run.run_all(wanted, arguments, until, found)
    print(summary(found))
    if left:
        print(f"{len(left)} left; run the command again: {' '.join(left)}")
    sys.exit(1 if any("error" in row or row.get("right") is False for row in found.values()) else 0)


def summary(found):
    measured = {name: row for name, row in found.items() if "variants" in row and "error" not in row}
    lines = []
    for name, row in measured.items():
        us = {variant: told["us"] for variant, told in row["variants"].items()}
        lines.append(
            f"{name}: eager {us['eager']:.0f} us, Inductor {us['inductor']:.0f}, Sinter {us['sinter']:.0f}; eager / Sinter "
            f"{us['eager'] / us['sinter']:.2f}, Inductor / Sinter {us['inductor'] / us['sinter']:.3f}" + told_xla(row) + told_besides(row)
        )
    for title, chosen in (
        ("training", lambda name: ":" not in name),
        ("FusionStitching's models", lambda name: name in PAPERS),
    ):
        of = [row["variants"] for name, row in measured.items() if chosen(name)]
        if of:
            mean = lambda a: math.exp(statistics.mean(math.log(each[a]["us"] / each["sinter"]["us"]) for each in of))
            lines.append(f"{title}: {len(of)} rows, eager / Sinter {mean('eager'):.3f}, Inductor / Sinter {mean('inductor'):.3f} in the geometric mean")
    wrong = [name for name, row in found.items() if "error" in row or row.get("right") is False]
    lines.append(f"{len(wrong)} wrong or failed: {' '.join(wrong)}" if wrong else "none wrong, none failed")
    return "\n".join(lines)


#: The seven workloads of the paper's table.
PAPERS = "bert_base@32 bert_base@32:infer dien@256 dien@256:infer transformer@32 asr@8:infer crnn@8:infer".split()


def told_xla(row):
    if "xla" not in row["variants"]:
        return f"; no XLA: {row['without']['xla']}" if "xla" in row.get("without", {}) else ""
    xla, own = row["variants"]["xla"], row["variants"]["sinter"]
    said = f"; XLA ({xla['form']}, {xla['setting']}) {xla['us']:.0f} us, XLA / Sinter {xla['us'] / own['us']:.2f}"
    if "us" in xla.get("whole", {}):
        said += f"; {xla['whole']['kernels']} kernels of {xla['whole']['us']:.0f} us beside {own['whole']['kernels']} of {own['whole']['us']:.0f}"
    return said


def told_besides(row):
    said = ""
    if "without_optimizer_us" in row:
        us = row["without_optimizer_us"]
        said += f"; without the optimiser {us['eager']:.0f}, {us['inductor']:.0f}, {us['sinter']:.0f}: {us['inductor'] / us['sinter']:.3f}"
    if "curves" in row:
        off = row["curves"]["off"]
        said += f"; curves off {off['sinter']:.1e} (Inductor {off['inductor']:.1e}, bound {row['curves']['bound']:.1e})"
    return said + f"; {row['taken']} parts"


def work(arguments):
    """Measures the rows whose names come by the standard input."""
    import gc

    import torch
    from torch._inductor.async_compile import AsyncCompile

    if arguments.jobs > 1:
        torch._inductor.config.compile_threads = max(1, (os.cpu_count() or 1) // arguments.jobs)
    AsyncCompile.warm_pool()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    turn = GpuTurn(arguments.work, torch.cuda.synchronize, run.tell_wait)
    for row in map(str.strip, sys.stdin):
        turn.take()
        seconds = run.Seconds(turn)
        try:
            result = measured(row, seconds, arguments, turn)
        except ImportError as error:
            result = {"skipped": f"{type(error).__name__}: {error}"}
        except Exception as error:
            import traceback

            traceback.print_exc()
            result = {"error": f"{type(error).__name__}: {error}"[-1500:]}
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()
        turn.give()
        print("RESULT " + json.dumps(result), flush=True)


def measured(row, seconds, arguments, turn):
    import torch

    torch.manual_seed(1)
    name, _, what = row.partition(":")
    name, _, dropout = name.partition("+")
    name, _, batch = name.partition("@")
    with torch.device("cuda"):
        model, draw = make(name, int(batch or 8), DROPOUT if dropout else 0.0)
        data = [draw() for _ in range(DATA)]
    if arguments.parts:
        return measure_parts(model, data[0], seconds, turn, what)
    if what == "adamw":
        return measure_optimizer(model, seconds, turn)
    with contextlib.closing(XlaInRow(name, arguments.work, arguments.xla_seconds)) if arguments.xla and not dropout else contextlib.nullcontext() as peer:
        if what == "infer":
            return run.measure(model, data[0], seconds, arguments, turn, peer)
        return measure(model, data, int(batch), seconds, turn, not dropout, what == "ungated", peer)


def make(name, batch, dropout=0.0):
    from training_models import MODELS

    return MODELS[name][0](batch, dropout)


class Step:
    """What a contestant trains: a model of its own, its optimiser, and a step as CUDA graphs."""

    def __init__(self, model, compiled_by, inputs):
        import torch

        self.model = copy.deepcopy(model).train()
        self.inputs = inputs
        self.start = [x.detach().clone() for x in self._tensors()]
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.rate = torch.tensor(RATE, device=inputs[0].device)
        self.optimizer = torch.optim.AdamW(self.parameters, lr=self.rate, fused=True, capturable=inputs[0].is_cuda)
        self.loss_of = compiled_by(under_autocast(self.model, inputs[0].device.type))
        self.graph = self.update = self.loss = None
        self.stream = torch.cuda.Stream() if inputs[0].is_cuda else None  # where all is run before it is captured there

    def _tensors(self):
        return [*self.model.parameters(), *self.model.buffers()]

    def backward(self):
        """Loss and gradients, each in new memory."""
        for p in self.parameters:
            p.grad = None
        loss = self.loss_of(*self.inputs)
        loss.backward()
        return loss.detach()

    def gradients(self):
        with self.aside():
            self.backward()
        return [p.grad.float() for p in self.parameters if p.grad is not None]

    @contextlib.contextmanager
    def aside(self):
        """On the step's own stream, after all earlier work and before all later work."""
        import torch

        if self.stream is None:
            yield
            return
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            yield
        torch.cuda.current_stream().wait_stream(self.stream)

    def capture(self):
        """A graph of all but the optimiser, and one of that."""
        import torch

        with self.aside():
            for _ in range(3):
                self.backward()
                self.optimizer.step()
        torch.cuda.synchronize()
        graph, update = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        for p in self.parameters:
            p.grad = None
        with torch.cuda.graph(graph, stream=self.stream):
            self.loss = self.backward()
        with torch.cuda.graph(update, stream=self.stream):
            self.optimizer.step()
        self.graph, self.update = graph, update

    def replay(self):
        self.graph.replay()
        self.update.replay()

    def restart(self):
        """As it was before its first step."""
        import torch

        with torch.no_grad():
            for x, start in zip(self._tensors(), self.start):
                x.copy_(start)
            for state in self.optimizer.state.values():
                for x in state.values():
                    x.zero_()

    def losses(self, data):
        """The losses of steps that go round `data`, from the start."""
        import torch

        self.restart()
        losses = torch.empty(STEPS, device=self.loss.device)
        for i in range(STEPS):
            for x, given in zip(self.inputs, data[i % len(data)]):
                x.copy_(given)
            self.rate.fill_(RATE * min(1, (i + 1) / WARM_UP))
            self.replay()
            losses[i] = self.loss
        for x, given in zip(self.inputs, data[0]):
            x.copy_(given)
        return losses.tolist()


def under_autocast(model, device):
    import torch

    def loss_of(*inputs):
        with torch.autocast(device, torch.bfloat16):
            return model(*inputs).float()

    return loss_of


def contestants(turn, told, ungated=False):
    """By name: what compiles a function. Graphs come from no cache, as the pass must see them. `ungated`: the backend once more, with all
    parts that plan, whatever they are predicted to gain."""
    import torch
    from torch._inductor.compile_fx import compile_fx

    from sinter.torch.backend import graph_pass, planner
    from sinter.torch.backend import compile_with, split_options

    own, _ = split_options(None, {"prepare": "block"})
    torch._functorch.config.enable_autograd_cache = False
    options = {"fx_graph_cache": False}

    def sinter(gm, example_inputs):
        with turn.given():
            return compile_with(graph_pass.SinterPass(own, told), gm, example_inputs, options)

    def sinter_ungated(gm, example_inputs):
        estimated = planner.inductor_us
        with unittest.mock.patch.object(planner, "inductor_us", lambda *given: NO_LIMIT_US + estimated(*given)):
            return sinter(gm, example_inputs)

    def inductor(gm, example_inputs):
        with turn.given():
            return compile_fx(gm, example_inputs, config_patches=options)

    def by(backend):
        return lambda f: torch.compile(f, backend=backend)

    more = {"ungated": by(sinter_ungated)} if ungated else {}
    return {"eager": lambda f: f, "inductor": by(inductor), "sinter": by(sinter), **more}


def measure(model, data, batch, seconds, turn, deterministic, ungated=False, peer=None):
    """A step of `model`: gradients of the first batch of `data` where nothing is random, times, losses. `peer`: as ``run.measure``'s."""
    import torch

    seconds.mark("make")
    inputs = data[0]
    reports = []
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "variants": {}}
    exact = float32_gradients(model, inputs) if deterministic else None
    seconds.mark("exact")
    if peer:
        named = [name for name, p in model.named_parameters() if p.requires_grad]
        peer.start(model, inputs, dict(zip(named, exact, strict=True)), training=True)
        seconds.mark("xla")
    steps = {}
    for name, compiled_by in contestants(turn, reports, ungated).items():
        torch._dynamo.reset()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step = Step(model, compiled_by, tuple(x.clone() for x in inputs))
        gradients = step.gradients()
        torch.cuda.synchronize()
        told = result["variants"][name] = {"compile_s": seconds.mark(name), "error": 0.0, "worst": 0.0}
        if exact is not None:
            told["error"], told["worst"] = off(gradients, exact)
        del gradients
        step.capture()
        step.restart()
        steps[name] = step
        told["kernels"] = run.kernels(step.graph)
        told["peak_mb"] = (torch.cuda.max_memory_allocated() - before) // 2**20
        seconds.mark("capture")
        print("SO FAR " + json.dumps({**result, "seconds_so_far": seconds.told}), flush=True)
    del exact
    timed = dict(steps)
    if peer:
        peer.join(result, timed, run.bound_of(result["variants"]), turn)
    with turn.alone():
        times = run.in_turns(timed)
        alone = run.in_turns({name: step.graph for name, step in steps.items()})
    for name, us in times.items():
        result["variants"][name]["us"] = us
    result["without_optimizer_us"] = alone
    seconds.mark("times")
    if peer:
        run.tell_whole(result, timed, turn)
        seconds.mark("profile")
    bound = run.bound_of(result["variants"])
    result["right"] = all(told["error"] <= bound for told in result["variants"].values())
    if deterministic:
        result["curves"] = curves(steps, data, batch, turn)
        result["right"] = result["right"] and result["curves"]["right"]
        seconds.mark("curves")
    result.update(told_of(reports), seconds=seconds.told)
    return result


def measure_parts(model, inputs, seconds, turn, what):
    """Each single part of a step of `model`; `what`: "infer": of its inference; "ungated", "infer:ungated": without the gate."""
    import torch

    seconds.mark("make")
    parts, reports = Parts(), []
    ungated = what.endswith("ungated")
    compiled_by = contestants(turn, reports, ungated)["ungated" if ungated else "sinter"]
    with parts.kept():  # a backward pass may be compiled when it is run first
        if what.startswith("infer"):
            model = model.eval().to(torch.bfloat16)
            with torch.no_grad():
                compiled_by(model)(*(run.to(x, torch.bfloat16) for x in inputs))
        else:
            compiled_by(under_autocast(model.train(), "cuda"))(*inputs).backward()
    seconds.mark("sinter")
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, **told_of(reports)}
    taken = [part._replace(limit_us=part.limit_us % NO_LIMIT_US) for report in reports for part in report.taken]
    result["timed_parts"] = parts.timed(taken, turn, lambda rows: print("SO FAR " + json.dumps({**result, "timed_parts": rows}), flush=True))
    seconds.mark("parts")
    return {**result, "seconds": seconds.told}


def told_of(reports):
    """What the backend took and left, by graph of the model."""
    taken = [part for report in reports for part in report.taken]
    return {
        "taken": len(taken),
        "ops": [{"all": report.nodes, "taken": sum(len(part.nodes) for part in report.taken)} for report in reports],
        "parts": [
            {"ops": len(p.nodes), "limit_us": p.limit_us, "predicted_us": p.plan and p.plan.predicted_us, "chain": p.made.chain.digest[:12]} for p in taken
        ],
        "left": sorted({f"{op}: {why}" for report in reports for op, why in report.left}),
    }


def float32_gradients(model, inputs):
    model = copy.deepcopy(model).train()
    model(*inputs).backward()
    return [p.grad for p in model.parameters() if p.grad is not None]


def off(gradients, exact):
    """Relative distance of all gradients as one vector, and of the worst tensor that is more than a millionth of them."""
    import torch

    assert len(gradients) == len(exact)
    norms = torch.stack([x.double().norm() for x in exact])
    apart = torch.stack([(x.double() - y.double()).norm() for x, y in zip(gradients, exact)])
    counts = norms > 1e-6 * norms.norm()
    return (apart.norm() / norms.norm()).item(), (apart[counts] / norms[counts]).max().item()


def curves(steps, data, batch, turn):
    """Losses of each contestant from the same start, and eager's with the samples of each batch in the other order, which sums in another
    order. The root mean square of how far Sinter's curve is off eager's may be `CURVE` times that of this one or of Inductor's, which rounds
    elsewhere, but no more than `MOST_NOISE` of what eager learns: beyond that chance decides who learns, and the row is wrong."""
    losses = {}
    for name, step in steps.items():
        losses[name] = step.losses(data)
        turn.let()
    losses["other order"] = steps["eager"].losses([[x.flip(list(x.shape).index(batch)) for x in given] for given in data])
    eager = losses["eager"]
    distance = lambda name: math.sqrt(statistics.mean((a - b) ** 2 for a, b in zip(losses[name], eager)))
    apart = {name: distance(name) for name in losses if name != "eager"}
    bound = max(CURVE * max(apart["other order"], apart["inductor"]), CURVE_FLOOR * statistics.mean(eager))
    bound = min(bound, MOST_NOISE * (eager[0] - min(eager)))
    some = {name: [round(loss, 4) for loss in all_of[:: STEPS // 20]] + [round(all_of[-1], 4)] for name, all_of in losses.items()}
    return {"off": apart, "bound": bound, "losses": some, "right": all(apart[name] <= bound for name in steps if name != "eager")}


def measure_optimizer(model, seconds, turn):
    """AdamW over all parameters: PyTorch's fused kernel as eager's, its step compiled by the others, and its own list of kernels as well.
    Parameters after three steps are held against the fused kernel's."""
    import torch

    reports = []
    told_by = contestants(turn, reports, ungated=True)
    ways = {"eager": (dict(fused=True), told_by["eager"]), "foreach": (dict(foreach=True), told_by["eager"])}
    ways.update({name: (dict(foreach=True), told_by[name]) for name in ("inductor", "sinter", "ungated")})
    start = [p.detach().clone() for p in model.parameters()]
    gradients = [torch.randn_like(p) for p in start]
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "variants": {}}
    graphs, kept, behind = {}, [], {}
    for name, (how, compiled_by) in ways.items():
        torch._dynamo.reset()
        parameters = [p.clone().requires_grad_() for p in start]
        for p, gradient in zip(parameters, gradients):
            p.grad = gradient
        optimizer = torch.optim.AdamW(parameters, lr=RATE, capturable=True, **how)
        step = compiled_by(optimizer.step)
        for _ in range(3):
            step()
        torch.cuda.synchronize()
        behind[name] = torch.cat([p.detach().flatten() for p in parameters])
        told = result["variants"][name] = {"compile_s": seconds.mark(name)}
        told["error"] = run.relative(behind[name] - torch.cat([p.flatten() for p in start]), behind["eager"] - torch.cat([p.flatten() for p in start]))
        graphs[name], _ = run.capture(lambda step=step: step(), ())
        told["kernels"] = run.kernels(graphs[name])
        kept.append((optimizer, parameters))
        seconds.mark("capture")
    with turn.alone():
        times = run.in_turns(graphs)
    for name, us in times.items():
        result["variants"][name]["us"] = us
    result["bytes"] = 28 * sum(p.numel() for p in start)  # weight and two moments read and written, gradient read
    result["right"] = all(told["error"] < 1e-3 for told in result["variants"].values())
    result.update(told_of(reports), seconds=seconds.told)
    return result


if __name__ == "__main__":
    main()
