#!/usr/bin/env python3
"""Prefill of language models as servers' plugins compute it, compared with torch.compile: layers, and whole prompts.

Usage: prefill.py --out FILE.json [--models A,B] [--rows 512,2048] ..    needs PyTorch, Triton and a Hopper GPU; else it ends with 77
"""

import argparse
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", "decode"), os.path.join(HERE, "..")]

import rows_file  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import sinter.torch  # noqa: E402
from kernels import add_rmsnorm, silu_mul  # noqa: E402
from models import MODELS  # noqa: E402
from source_state import of_library  # noqa: E402
from step import Weights  # noqa: E402
from sinter.torch.serve.between_op import Call, by_torch  # noqa: E402
from sinter.torch import servers  # noqa: E402
from sinter.torch.runtime.store import store  # noqa: E402

SLACK = 1.5  # an error may be so many times that of PyTorch's operators
LAYERS = 4  # of the loop of layers, in rotation: more than L2 holds


# ---------------------------------------------------------------- Between two attentions


def norm_of(x, gamma, eps):
    return F.rms_norm(x, gamma.shape, gamma, eps)


def between(attended, stream, o, norm, gate_up, down, next_norm, next, eps):
    """As servers have it: gate and up merged, queries, keys and values too."""
    stream = stream + F.linear(attended, o)
    gate, up = F.linear(norm_of(stream, norm, eps), gate_up).chunk(2, -1)
    stream = stream + F.linear(F.silu(gate) * up, down)
    return stream, F.linear(norm_of(stream, next_norm, eps), next)


def operator(attended, stream, *rest):
    """What the plugin puts in its place."""
    return torch.ops.sinter.between_attentions(attended, stream, list(rest[:-1]), rest[-1])


def weights_between(layer, after):
    return layer.o, layer.post_norm, layer.gate_up, layer.down, after.norm, after.qkv


# ---------------------------------------------------------------- A whole prompt


def heads_of(qkv, gamma, turns, model):
    """Queries, keys and values [1, heads, rows, head] of one prompt, turned by their positions."""
    parts = qkv.view(len(qkv), -1, model.head).split((model.heads, model.kv_heads, model.kv_heads), 1)
    cosine, sine = (turn[: len(qkv), None].to(qkv.dtype) for turn in turns)
    found = []
    for part, weight in zip(parts[:2], gamma):
        part = norm_of(part, weight, model.eps) if model.qk_norm else part
        low, high = part.chunk(2, -1)
        found.append(torch.cat((low * cosine - high * sine, high * cosine + low * sine), -1))
    return tuple(part.transpose(0, 1).unsqueeze(0) for part in (*found, parts[2]))


def tail(attended, stream, layer, weights, eps):
    """The last layer after attention, and the logits of the last token."""
    stream = stream + F.linear(attended, layer.o)
    gate, up = F.linear(norm_of(stream, layer.post_norm, eps), layer.gate_up).chunk(2, -1)
    stream = stream[-1:] + F.linear((F.silu(gate) * up)[-1:], layer.down)
    return F.linear(norm_of(stream, weights.norm, eps), weights.logits)


class Prompt:
    """A forward of one prompt. `shared`: what all contestants run in addition to the layers, ``heads_of`` and ``tail``, perhaps compiled."""

    def __init__(self, weights, rows, shared=(heads_of, tail)):
        self.weights, self.model = weights, weights.model
        device = weights.embedding.device
        generator = torch.Generator(device).manual_seed(3)
        self.tokens = torch.randint(self.model.vocabulary, (rows,), device=device, generator=generator)
        angle = torch.arange(rows, device=device)[:, None] * 1e4 ** -(
            torch.arange(self.model.head // 2, device=device) * 2 / self.model.head
        )
        self.turns = angle.cos(), angle.sin()
        self.heads_of, self.tail = shared

    def __call__(self, between):
        """The logits of its last token. `between`: who computes between two attentions."""
        layers, model = self.weights.layers, self.model
        stream = F.embedding(self.tokens, self.weights.embedding)
        qkv = F.linear(norm_of(stream, layers[0].norm, model.eps), layers[0].qkv)
        for layer, after in zip(layers, [*layers[1:], None]):
            q, k, v = self.heads_of(qkv, layer.qk_gamma, self.turns, model)
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            attended = attended.squeeze(0).transpose(0, 1).reshape(len(self.tokens), model.q)
            if after is None:
                return self.tail(attended, stream, layer, self.weights, model.eps)
            stream, qkv = between(attended, stream, *weights_between(layer, after), model.eps)


# ---------------------------------------------------------------- Measuring


def relative_error(found, wanted):
    return ((found.float() - wanted.float()).norm() / wanted.float().norm()).item()


def captured(work, stream):
    with torch.cuda.stream(stream):
        work()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            work()
    return graph.replay


def in_turns(works, stream, rounds, count):
    """{name: median microseconds of a call}, by the device's clock and by the host's."""
    device, host = {name: [] for name in works}, {name: [] for name in works}
    with torch.cuda.stream(stream):
        for _ in range(rounds):
            for name, work in works.items():
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                work()
                stream.synchronize()
                clock = time.perf_counter()
                begin.record(stream)
                for _ in range(count):
                    work()
                end.record(stream)
                stream.synchronize()
                host[name].append((time.perf_counter() - clock) * 1e6 / count)
                device[name].append(begin.elapsed_time(end) * 1e3 / count)
    return {name: (statistics.median(device[name]), statistics.median(host[name])) for name in works}


def set_up(sizes, rows):
    """As the plugin for vLLM does. Its kernels, which compute until a plan is there, are here the serving form's."""
    add_norm = lambda x, residual, weight, eps: add_rmsnorm(x, residual, weight, eps)[::-1]
    servers.set_up(silu_mul, sizes, rows=rows, add_norm=add_norm)


def wait_for_plans(call, seconds):
    """Until all plans of the background are there; seconds it took."""
    begin, before = time.perf_counter(), sinter.torch.counts()
    call(1)  # the first sight
    while True:
        now = sinter.torch.counts()
        if now.prepared + now.failed - before.prepared - before.failed >= len(store.settings.sizes) + len(store.settings.later):
            return time.perf_counter() - begin
        if time.perf_counter() - begin > seconds:
            raise TimeoutError(f"plans are not there after {seconds} s: {now}")
        time.sleep(0.05)


class Compiled:
    """By torch.compile: a layer for one number of rows, and what serves any, each once for a model."""

    def __init__(self):
        torch._dynamo.reset()
        # Functions of their own: what Dynamo keeps belongs to a function.
        self.fixed = torch.compile(lambda *values: between(*values), dynamic=False)
        self.any = torch.compile(lambda *values: between(*values), dynamic=True)
        self.shared = torch.compile(heads_of, dynamic=True), torch.compile(tail, dynamic=True)


def layers_of(model, rows, sets, stream, compiled, options):
    """Rows of the results file for the loop of layers."""
    generator = torch.Generator("cuda").manual_seed(rows)
    make = lambda columns: torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16, generator=generator)
    attended, residual = make(model.q), make(model.hidden)
    contestants = {"compile": compiled.fixed if rows in options.rows else compiled.any, "plugin": operator}
    wanted = between(attended.float(), residual.float(), *(weight.float() for weight in sets[0]), model.eps)
    own = [relative_error(a, b) for a, b in zip(between(attended, residual, *sets[0], model.eps), wanted)]
    launches = store.context(0).stats().launches
    works = {}
    for name, contestant in contestants.items():
        errors = [relative_error(a, b) for a, b in zip(contestant(attended, residual, *sets[0], model.eps), wanted)]
        if not all(a <= b * SLACK for a, b in zip(errors, own)):
            raise RuntimeError(f"{model.name}, {rows} rows, {name}: errors {errors}, PyTorch's {own}")
        works[name] = captured(
            lambda contestant=contestant: [contestant(attended, residual, *one, model.eps) for one in sets], stream)
    if store.context(0).stats().launches == launches:
        raise RuntimeError(f"{model.name}, {rows} rows: no plan was launched")
    meanwhile = lambda: [by_torch(Call(attended, residual, [*one], model.eps)) for one in sets]
    works["meanwhile"] = captured(meanwhile, stream)
    found = in_turns(works, stream, options.rounds, 4)
    return [row("layers", model, rows, name, us / len(sets), found["compile"][0] / us) for name, (us, _) in found.items()]


def prompts_of(model, weights, rows, stream, compiled, options):
    """Rows of the results file for whole prompts, in a graph and launched one by one."""
    prompt = Prompt(weights, rows, compiled.shared)
    contestants = {"compile": compiled.any, "plugin": operator}
    with torch.cuda.stream(stream):
        logits = {name: prompt(contestant) for name, contestant in contestants.items()}
        eager = prompt(between)
    stream.synchronize()
    error, own = (relative_error(eager, logits[name]) for name in ("plugin", "compile"))
    if not error <= own * SLACK:
        raise RuntimeError(f"{model.name}, prompt of {rows} rows: error {error}, torch.compile's {own}")
    rows_found = []
    launched = {name: lambda contestant=contestant: prompt(contestant) for name, contestant in contestants.items()}
    for what, works in (
        ("prompt", {name: captured(work, stream) for name, work in launched.items()}),
        ("prompt, launched", launched),
    ):
        found = in_turns(works, stream, options.rounds, 1)
        for name, (device, host) in found.items():
            distance = {"plugin": error, "compile": own}[name]
            rows_found.append(row(what, model, rows, name, host, found["compile"][1] / host, device_us=device, to_eager=distance))
    return rows_found


def row(what, model, rows, contestant, us, ratio, **more):
    found = {"what": what, "model": model.name, "rows": rows, "contestant": contestant, "us": us, "compile_to_it": ratio, **more}
    print(f"{what:17} {model.name:13} M {rows:<5} {contestant:10} {us:10.1f} us  compile / it {ratio:.3f}", flush=True)
    return found


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="results file")
    parser.add_argument("--models", type=lambda text: [MODELS[name] for name in text.split(",")],
                        default=[MODELS[name] for name in ("Llama-3.2-1B", "Qwen3-8B", "Llama-3-8B")], help="names from ../decode/models.py")
    parser.add_argument("--rows", type=lambda text: [int(word) for word in text.split(",")], default=[512, 2048, 8192], help="tokens of a prompt")
    parser.add_argument("--between", type=lambda text: [int(word) for word in text.split(",") if word], default=[700, 1100, 3000, 5000],
                        help="more numbers of rows of the loop of layers, in addition to one compiled for all of them")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant; the median counts")
    parser.add_argument("--layers", type=int, help="layers of a whole prompt; all by default")
    parser.add_argument("--seconds", type=float, default=600, help="no model begins later")
    return parser.parse_args(arguments)


def measure(model, options, result):
    stream = torch.cuda.Stream()
    weights = Weights(model, "cuda", layers=options.layers)
    sets = [weights_between(*pair) for pair in list(zip(weights.layers, weights.layers[1:]))[:LAYERS]]
    set_up((512,), max(*options.rows, 640))
    context = store.context(0)
    code, kept, others = context.stats().module_bytes, context._workspaces.bytes(), {*store._on(0).by_line}

    def call(rows):
        make = lambda columns: torch.zeros(rows, columns, device="cuda", dtype=torch.bfloat16)
        return operator(make(model.q), make(model.hidden), *sets[0], model.eps)

    seconds = wait_for_plans(call, 120)
    later = [plans.later for line, plans in store._on(0).by_line.items() if line not in others and plans.later is not None]
    result["plans"][model.name] = {
        "seconds": seconds, "code_bytes": context.stats().module_bytes - code, "kept_workspace_bytes": context._workspaces.bytes() - kept,
        "largest_launch_bytes": max(plan.workspace_size for one in later for plan in one._plans.values()),
    }
    print(model.name, result["plans"][model.name], flush=True)
    compiled = Compiled()
    for rows in (*options.rows, *options.between):
        result["rows"] += layers_of(model, rows, sets, stream, compiled, options)
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION]):
        for rows in options.rows:
            result["rows"] += prompts_of(model, weights, rows, stream, compiled, options)


def main(arguments):
    options = parse(arguments)
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        print("needs a Hopper GPU")
        return 77
    begin = time.perf_counter()
    result = {"machine": {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__}, **of_library(), "plans": {}, "rows": [], "failures": []}
    with torch.no_grad():
        for model in options.models:
            if time.perf_counter() - begin > options.seconds:
                result["failures"].append(f"{model.name}: no time left")
                continue
            try:
                measure(model, options, result)
            except Exception as error:  # the next model is measured all the same
                result["failures"].append(f"{model.name}: {type(error).__name__}: {error}")
                print("FAILED", result["failures"][-1], flush=True)
            torch.cuda.empty_cache()
            rows_file.write(options.out, result)
    return 1 if result["failures"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
