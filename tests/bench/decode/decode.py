#!/usr/bin/env python3
"""A whole decoding step of language models in one CUDA graph: Sinter beside PyTorch's compiler and beside cuBLAS.

Usage: decode.py --out FILE.json [--models A,B] [--rows 1,8] [--contestants X,Y] ..    needs PyTorch, Triton and a Hopper GPU

Ends with 0 when all was right, 1 when something failed, 2 for a command line that is wrong, 77 without a GPU.
"""

import argparse
import concurrent.futures
import datetime
import os
import subprocess
import sys
import time

from models import MODELS, limit_us
from variants import TORCH, flags_of

CONTESTANTS = "serving,compile,sinter,sinter-pdl,sinter-split-pdl"


def model_names(text):
    found = text.split(",")
    for name in found:
        if name not in MODELS:
            raise argparse.ArgumentTypeError(f"no model is called {name!r}; there are {' '.join(MODELS)}")
    return found


def contestant_names(text):
    found = text.split(",")
    try:
        for name in found:
            if name not in TORCH:
                flags_of(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return found


def numbers(text):
    try:
        found = [int(word) for word in text.split(",")]
    except ValueError:
        found = [0]
    if min(found) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers of 1 or more")
    return found


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="results file; required but for --warm-only")
    parser.add_argument("--models", type=model_names, default=list(MODELS), help="names from models.py, all by default")
    parser.add_argument("--rows", type=numbers, default=[1, 8, 32, 64, 128], help="rows of a step, M")
    parser.add_argument("--contexts", type=numbers, default=[1024], help="positions that attention reads")
    parser.add_argument("--contestants", type=contestant_names, default=CONTESTANTS.split(","),
                        help="eager serving compile max-autotune, sinter[-split|-unfused][-folded][-pdl]")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant; the median counts")
    parser.add_argument("--turn", type=float, default=0.02, help="seconds of a turn")
    parser.add_argument("--energy", type=float, default=0.0, help="seconds that each contestant's energy is measured for")
    parser.add_argument("--timeline", action="store_true", help="store some of each contestant's kernels with their times")
    parser.add_argument("--slack", type=float, default=1.5, help="an error may be so many times that of PyTorch's operators")
    parser.add_argument("--seconds", type=float, default=600.0, help="no case begins later")
    parser.add_argument("--warm", type=int, default=0, metavar="N", help="fill the compilers' caches first, N processes at once")
    parser.add_argument("--warm-only", action="store_true", help="fill the caches for the cases, one after another, and end")
    options = parser.parse_args(arguments)
    if not options.warm_only and not options.out:
        parser.error("--out is missing")
    return options


# ---------------------------------------------------------------- Caches


def warm_command(model, rows, contestants):
    return [sys.executable, "-B", os.path.abspath(__file__), "--warm-only", "--models", model, "--rows", str(rows),
            "--contestants", ",".join(contestants)]


def warm(options):
    """Compiles what contestants of PyTorch need, a process for each model and number of rows. Its failures show up later."""
    compiled = [name for name in options.contestants if name in ("compile", "max-autotune")]
    if not compiled:
        return
    begin = time.perf_counter()
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    run = lambda command: subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)
    commands = [warm_command(model, rows, compiled) for model in options.models for rows in options.rows]
    with concurrent.futures.ThreadPoolExecutor(options.warm) as pool:
        list(pool.map(run, commands))
    print(f"compiled in {time.perf_counter() - begin:.0f} s", flush=True)


def warm_only(options):
    """Each contestant's functions once, on a model of two layers."""
    import torch

    from contestants import Torch
    from step import Weights

    with torch.no_grad():
        for name in options.models:
            weights = Weights(MODELS[name], "cuda", layers=2)
            for rows in options.rows:
                make = lambda columns: torch.ones(rows, columns, device="cuda", dtype=torch.bfloat16)
                for mode in options.contestants:
                    torch._dynamo.reset()
                    contestant = Torch(weights, mode)
                    stream, attended = make(weights.model.hidden), make(weights.model.q)
                    contestant.first(stream)
                    contestant.between(0, attended, stream)
                    contestant.last(attended, stream)


# ---------------------------------------------------------------- A case


class Case:
    """One model, number of rows and context on the GPU."""

    def __init__(self, options, weights, folded, context, rows, positions):
        import torch

        from step import State

        self.options, self.weights, self.folded, self.context = options, weights, folded, context
        self.model, self.rows, self.positions = weights.model, rows, positions
        self.stream = torch.cuda.Stream()
        self.state = State(weights, rows, positions)
        self.failures, self.plans = {}, None

    def measure(self, meter):
        """Rows of the results file."""
        import torch

        from measure import energy, in_turns, timeline
        from reference import logits
        from results import row

        torch._dynamo.reset()
        self.state.reset()
        self.wanted = logits(self.weights, self.state)
        self.own = self._error_of(*self._graph("eager", attention=True))
        graphs, bare, about = {}, {}, {}
        for name in self.options.contestants:
            made = self._try(name)
            if made is not None:
                graphs[name], bare[name], about[name] = made
        turns = lambda which: in_turns(which, self.stream, self.options.rounds, self.options.turn, self.state)
        us, bare_us = turns(graphs), turns(bare)
        found = []
        for name, graph in graphs.items():
            if self.options.energy:
                about[name]["joules"] = energy(graph, self.stream, us[name], self.options.energy, meter)
            if self.options.timeline:
                about[name]["timeline"] = timeline(graph, self.stream)
            found.append(row(self.model, self.rows, self.positions, name, us[name], bare_us[name], **about[name]))
        return found

    def _try(self, name):
        """Graph, graph without attention, what is known of both; None where it fails or is wrong."""
        import torch

        from measure import check

        begin = time.perf_counter()
        try:
            graph, contestant = self._graph(name, attention=True)
            error = check(self._error_of(graph, contestant), self.own, self.options.slack)
            bare, _ = self._graph(name, attention=False, contestant=contestant)
        except Exception as failure:  # of any contestant: the others go on
            self.failures[name] = f"{type(failure).__name__}: {failure}"[:500]
            torch.cuda.synchronize()
            return None
        about = {"kernels": graph.kernels, "kernels_without_attention": bare.kernels, "rel_error": error,
                 "eager_error": self.own, "ready_s": time.perf_counter() - begin, **self._plan_figures(name)}
        return graph, bare, about

    def _graph(self, name, attention, contestant=None):
        import torch

        from measure import Graph
        from step import run

        with torch.no_grad():
            with torch.cuda.stream(self.stream):
                self.state.reset()
                contestant = contestant or self._contestant(name)
            return Graph(lambda: run(contestant, self.weights, self.state, attention), self.stream), contestant

    def _contestant(self, name):
        from contestants import Serving, Sinter, Torch

        if name == "serving":
            return Serving(self.weights)
        if name in TORCH:
            return Torch(self.weights, name)
        flags = flags_of(name)
        return Sinter(self.folded if "folded" in flags else self.weights, self.state, self._plans().of(flags), flags)

    def _plans(self):
        """Prepared for all variants at once, when the first needs one."""
        from contestants import Plans

        if self.plans is None:
            variants = [flags_of(name) for name in self.options.contestants if name not in TORCH]
            self.plans = Plans(self.context, self.model, self.rows, variants)
        return self.plans

    def _plan_figures(self, name):
        if name in TORCH:
            return {}
        plans = self._plans().of(flags_of(name))
        return {"prepare_s": self.plans.seconds, "digests": {part: plan.digest for part, plan in plans.items()},
                "plan_kernels": {part: plan.kernel_count for part, plan in plans.items()},
                "predicted_us": {part: plan.predicted_us for part, plan in plans.items()}}

    def _error_of(self, graph, contestant):
        """Of one replay on buffers that hold no number before."""
        import torch

        from measure import relative_error

        with torch.cuda.stream(self.stream):
            self.state.reset()
            self.state.poison()
            graph.result.fill_(float("nan"))
            getattr(contestant, "poison", lambda: None)()
            graph.replay()
            self.stream.synchronize()
            return relative_error(graph.result, self.wanted)


# ---------------------------------------------------------------- All cases


def report(found, failures, model, rows, positions):
    limit = limit_us(model, rows, positions)
    for one in found:
        print(f"{model.name:13} M {rows:<4} context {positions:<5} {one['contestant']:22} {one['step_us']:8.1f} us  "
              f"without attention {one['without_attention_us']:8.1f}  kernels {one['kernels']}  "
              f"error {one['rel_error']:.1e}  limit / us {limit / one['step_us']:.2f}", flush=True)
    for name, why in failures.items():
        print(f"{model.name:13} M {rows:<4} context {positions:<5} {name:22} FAILED {why}", flush=True)


def machine():
    import torch

    import sinter

    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
            "library": sinter.build_info(), "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}


def run_cases(options):
    """Measures all; whether nothing failed."""
    import torch

    import sinter
    from measure import Meter, pci_bus_id
    from results import write
    from step import Weights

    begin, found, failed = time.perf_counter(), [], []
    meter, context, about = Meter(pci_bus_id(0)), sinter.Context(0), machine()
    for name in options.models:
        weights = Weights(MODELS[name], "cuda")
        folded = weights.folded() if any("folded" in one for one in options.contestants) else None
        for positions, rows in [(p, r) for p in options.contexts for r in options.rows]:
            if time.perf_counter() - begin > options.seconds:
                failed.append({"model": name, "rows": rows, "context": positions, "why": "no time left"})
                continue
            case = None
            try:
                case = Case(options, weights, folded, context, rows, positions)
                measured, failures = case.measure(meter), case.failures
                for one in measured:
                    one["clock_mhz"] = meter.clock_mhz()
            except Exception as failure:  # the others go on
                measured, failures = [], {"case": f"{type(failure).__name__}: {failure}"[:500]}
            found += measured
            failed += [{"model": name, "rows": rows, "context": positions, "contestant": who, "why": why}
                       for who, why in failures.items()]
            report(measured, failures, MODELS[name], rows, positions)
            write(options.out, about, found, failed)
            del case
            torch.cuda.empty_cache()
        del weights, folded
    return not failed


def main(arguments):
    options = parse(arguments)
    try:
        import torch
    except ImportError:
        print("decode.py: no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("decode.py: no GPU")
        return 77
    if options.warm_only:
        warm_only(options)
        return 0
    if options.warm:
        warm(options)
    return 0 if run_cases(options) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
