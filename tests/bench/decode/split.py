#!/usr/bin/env python3
"""A decoding step of models whose layers are split over several GPUs. Sinter's plans, which sum over them, are compared with torch.compile with NCCL
and with symmetric memory.

Usage: split.py --out FILE.json [--ranks 4] [--models A,B] [--rows 1,16] [--contestants X,Y] ..    needs PyTorch, Triton and Hopper GPUs that reach one another

A process a GPU, which has some of the heads, of the columns of MLPs, of the cache and of the logits of one model; these logits are held against the
float32 step of the whole one. They are not gathered, so all steps have the same tokens. The others are compiled from attention to attention, with a
sum after two products that the compiler does not look into; `sinter` is BetweenAttentions with a group. Graphs are replayed equally often on all
GPUs, and the slowest one counts. Ends with 0 when all was right, 1 when something failed, 2 for a command line that is wrong, 77 with fewer GPUs than ranks.
"""

import argparse
import datetime
import os
import statistics
import sys
import time

from models import LARGE, part_of

CONTESTANTS = ("nccl", "one-shot", "two-shot", "sinter", "sinter-pdl")


def parse(arguments):
    def names(of):
        def read(text):
            for name in text.split(","):
                if name not in of:
                    raise argparse.ArgumentTypeError(f"{name!r} is none of {' '.join(of)}")
            return text.split(",")

        return read

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="results file")
    parser.add_argument("--ranks", type=int, choices=(2, 4, 8), default=2, help="GPUs that heads and columns are split over")
    parser.add_argument("--models", type=names(LARGE), default=list(LARGE))
    parser.add_argument("--rows", type=lambda text: [int(word) for word in text.split(",")], default=[1, 16, 64])
    parser.add_argument("--context", type=int, default=1024, help="positions that attention reads")
    parser.add_argument("--contestants", type=names(CONTESTANTS), default=list(CONTESTANTS), help=" ".join(CONTESTANTS))
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant; the median counts")
    parser.add_argument("--steps", type=int, default=10, help="steps of a turn")
    parser.add_argument("--slack", type=float, default=1.5, help="an error may be so many times that of PyTorch's operators")
    parser.add_argument("--seconds", type=float, default=120.0, help="no case begins later")
    return parser.parse_args(arguments)


# ---------------------------------------------------------------- A rank's part


def part_of_weights(whole, rank, ranks):
    """Copies of what `rank` has of the weights of a whole model."""
    from step import Layer, Weights

    mine = lambda matrix, dim=0: matrix.chunk(ranks, dim)[rank]
    made = object.__new__(Weights)
    made.model, made.embedding, made.norm = part_of(whole.model, ranks), whole.embedding, whole.norm
    made.logits, made.layers = mine(whole.logits).clone(), []
    for layer in whole.layers:
        one = object.__new__(Layer)
        one.__dict__.update(layer.__dict__)
        model = whole.model
        one.qkv = cat(mine(part) for part in layer.qkv.split((model.q, model.kv, model.kv)))
        one.gate_up = cat(mine(half) for half in layer.gate_up.chunk(2))
        one.o, one.down = mine(layer.o, 1).contiguous(), mine(layer.down, 1).contiguous()
        made.layers.append(one)
    return made


def cat(parts):
    import torch

    return torch.cat(list(parts))


def part_of_state(whole, weights, rank, ranks, early=False):
    """Tokens, position and this rank's keys and values of the state of a whole model. `weights`: the part's."""
    from step import State

    made = State(weights, whole.rows, whole.context, early)
    made.begin.copy_(whole.begin)
    for cache, of in zip(made.caches, whole.caches):
        cache.copy_(of.chunk(ranks, 2)[rank])
    made.reset()
    return made


class Planned:
    """Sinter's layers, as a model loop of one's own has them."""

    def __init__(self, weights, context, group, rows, pdl):
        import sinter.torch

        import chains

        model, layers = weights.model, weights.layers
        self.pdl, self.weights = pdl, weights
        self.begin = context.prepare(chains.first(model), rows)
        ends = [(after.norm, after.qkv) for after in layers[1:]] + [(weights.norm, weights.logits)]
        self.layers = [
            sinter.torch.BetweenAttentions(layer.o, layer.post_norm, layer.gate_up, layer.down, *end, eps=model.eps, pdl=pdl, group=group)
            for layer, end in zip(layers, ends)
        ]
        self.digests = {part: layer.prepare([rows])[rows] for part, layer in (("between", self.layers[0]), ("last", self.layers[-1]))}

    def first(self, stream):
        layer = self.weights.layers[0]
        return self.begin(stream, layer.norm, layer.qkv, pdl=self.pdl)

    def between(self, i, attended, stream):
        return self.layers[i](attended, stream)

    def last(self, attended, stream):
        return self.layers[-1](attended, stream)[1]


class Sums:
    """The sum after a product by one of torch's ways, an operator that torch.compile sees and does not look into, as vLLM's is.

    Attributes:
        way: nccl, one-shot or two-shot: what the operator does when it is called, so that one compilation serves all.
    """

    def __init__(self, device):
        import torch
        import torch.distributed as dist
        import torch.distributed._symmetric_memory as symmetric

        self.way, kept = "nccl", {}

        def buffer(a, w):
            shape = (len(a), len(w))
            if shape not in kept:
                kept[shape] = symmetric.empty(*shape, dtype=a.dtype, device=device)
                symmetric.rendezvous(kept[shape], dist.group.WORLD)
            return kept[shape]

        @torch.library.custom_op("sinter_bench::linear_sum", mutates_args=())
        def linear_sum(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
            if self.way == "nccl":
                total = torch.nn.functional.linear(a, w)
                dist.all_reduce(total)
                return total
            own, name = buffer(a, w), dist.group.WORLD.group_name
            torch.mm(a, w.T, out=own)
            if self.way == "one-shot":
                return torch.ops.symm_mem.one_shot_all_reduce(own, "sum", name)
            return torch.ops.symm_mem.two_shot_all_reduce_out(own, "sum", name, torch.empty_like(own))

        @linear_sum.register_fake
        def _(a, w):
            return a.new_empty(len(a), len(w))

        self.linear = linear_sum


# ---------------------------------------------------------------- A rank's run


class Rank:
    """A process of the run."""

    def __init__(self, rank, ranks, options):
        import torch
        import torch.distributed as dist

        import sinter
        import sinter.torch

        self.rank, self.ranks, self.options, self.until = rank, ranks, options, time.monotonic() + options.seconds
        self.dist, self.torch = dist, torch
        self.context = sinter.Context(rank)
        sinter.torch.use_context(self.context)
        self.group = sinter.Group.from_torch(self.context, timeout=60.0)
        self.sums = Sums(torch.device("cuda", rank))
        self.stream, self.token = torch.cuda.Stream(), torch.zeros(1, device="cuda")

    def together(self):
        """Both GPUs go on at once."""
        self.dist.all_gather_object([None] * self.ranks, 0)
        self.dist.all_reduce(self.token)

    def agree(self, failure):
        """Why a contestant failed, on any rank; "" where it did not."""
        told = [None] * self.ranks
        self.dist.all_gather_object(told, failure)
        return next((why for why in told if why), "")

    def model(self, whole_model):
        import reference
        from step import State, Weights

        torch, found, failures = self.torch, [], []
        whole = Weights(whole_model, "cuda")
        mine = part_of_weights(whole, self.rank, self.ranks)
        for rows in self.options.rows:
            if self.agree("late" if time.monotonic() > self.until else ""):
                failures.append({"model": mine.model.name, "rows": rows, "why": "no time left"})
                continue
            state = State(whole, rows, self.options.context)
            state.reset()
            wanted = reference.logits(whole, state).chunk(self.ranks, 1)[self.rank].clone()
            part = part_of_state(state, mine, self.rank, self.ranks, early=True)
            del state
            torch.cuda.empty_cache()
            one, why = self.case(mine, part, wanted)
            found += one
            failures += why
        return found, failures

    def case(self, weights, state, wanted):
        from measure import check, relative_error
        from results import row

        torch, rows = self.torch, state.rows
        torch._dynamo.reset()
        failures, graphs, bare, about, own = [], {}, {}, {}, None
        for name in ["eager", *self.options.contestants]:
            begin, why = time.perf_counter(), ""
            try:
                contestant = self.contestant(name, weights, state)
                graph = self.graph(contestant, weights, state, True)
                error = self.error_of(graph, state, wanted, relative_error)
                if name == "eager":
                    own = error
                else:
                    check(error, own, self.options.slack)
            except Exception as failure:  # of any contestant: the others go on
                why = f"{type(failure).__name__}: {failure}"[:500]
            why = self.agree(why)
            if why:
                failures.append({"model": weights.model.name, "rows": rows, "contestant": name, "why": why})
                if self.group.error is not None or name == "eager":
                    break
                continue
            if name != "eager":
                graphs[name], bare[name] = graph, self.graph(contestant, weights, state, False)
                about[name] = {"early": True, "kernels": graph.kernels, "kernels_without_attention": bare[name].kernels, "rel_error": error,
                               "eager_error": own, "ready_s": time.perf_counter() - begin, "digests": getattr(contestant, "digests", {})}
        times, bare_times = self.in_turns(graphs, state), self.in_turns(bare, state)
        return [row(weights.model, rows, self.options.context, name, times[name], bare_times[name], **about[name]) for name in graphs], failures

    def contestant(self, name, weights, state):
        from contestants import Torch

        if name.startswith("sinter"):
            return Planned(weights, self.context, self.group, state.rows, name == "sinter-pdl")
        self.sums.way = "nccl" if name == "eager" else name
        if name == "eager":
            return Torch(weights, behind=self.sums.linear)
        self.compiled = getattr(self, "compiled", None)
        if self.compiled is None or self.compiled.weights is not weights:
            self.compiled = Torch(weights, "compile", behind=self.sums.linear)
        return self.compiled

    def graph(self, contestant, weights, state, attention):
        from measure import Graph
        from step import run

        with self.torch.no_grad(), self.torch.cuda.stream(self.stream):
            state.reset()  # a step writes the cache at its position
            return Graph(lambda: run(contestant, weights, state, attention, choose=False), self.stream)

    def error_of(self, graph, state, wanted, relative_error):
        """The error of one replay on buffers that hold no number before."""
        with self.torch.cuda.stream(self.stream):
            state.reset()
            state.poison()
            graph.result.fill_(float("nan"))
            self.together()
            graph.replay()
            self.stream.synchronize()
            return relative_error(graph.result, wanted)

    def in_turns(self, graphs, state):
        """{name: microseconds of a step, of the slower rank}: as many replays on each, one contestant after another."""
        torch, times = self.torch, {name: [] for name in graphs}
        with torch.cuda.stream(self.stream):
            for _ in range(self.options.rounds + 1):
                for name, graph in graphs.items():
                    state.reset()
                    self.together()
                    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                    begin.record()
                    for _ in range(self.options.steps):
                        graph.replay()
                    end.record()
                    end.synchronize()
                    times[name].append(begin.elapsed_time(end) * 1e3 / self.options.steps)
        mine = {name: statistics.median(values[1:]) for name, values in times.items()}
        told = [None] * self.ranks
        self.dist.all_gather_object(told, mine)
        return {name: max(one[name] for one in told) for name in mine}


def process(rank, ranks, port, options, results):
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("cpu:gloo,cuda:nccl", rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=90), device_id=torch.device("cuda", rank))
    import case
    import results as tables

    run, found, failures, about = Rank(rank, ranks, options), [], [], case.machine()
    for name in options.models:
        measured, failed = run.model(LARGE[name])
        found, failures = found + measured, failures + failed
        if rank == 0:
            for rows in options.rows:
                of_rows = [one for one in measured if one["rows"] == rows]
                why = {one.get("contestant", "case"): one["why"] for one in failed if one["rows"] == rows}
                case.report(of_rows, why, part_of(LARGE[name], ranks), rows, options.context)
            tables.write(options.out, about, found, failures)
        torch.cuda.empty_cache()
    torch.cuda.synchronize()
    run.group.close()
    results[rank] = len(failures)
    dist.destroy_process_group()


def main(arguments):
    options = parse(arguments)
    try:
        import torch
        import torch.multiprocessing as multiprocessing
    except ImportError:
        print("split.py: no PyTorch")
        return 77
    if torch.cuda.device_count() < options.ranks:
        print(f"split.py: --ranks {options.ranks} needs as many GPUs, {torch.cuda.device_count()} are here")
        return 77
    spawn = multiprocessing.get_context("spawn")
    with spawn.Manager() as manager:
        results, port = manager.dict(), 20000 + os.getpid() % 20000
        ranks = [spawn.Process(target=process, args=(rank, options.ranks, port, options, results)) for rank in range(options.ranks)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join(options.seconds + 120)
            if one.is_alive():
                one.kill()
        counts = dict(results)
    failures = [counts.get(rank, "did not end") for rank in range(options.ranks)]
    print(f"failures by rank: {failures}", flush=True)
    return 0 if failures == [0] * options.ranks else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
