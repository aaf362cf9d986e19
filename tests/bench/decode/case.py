"""One case, measured on the GPU; and all cases of a run."""

import datetime
import time

import torch

import reference
import sinter
from contestants import Plans, Serving, Sinter, Torch
from measure import Graph, Meter, check, energy, in_turns, pci_bus_id, relative_error, timeline
from models import MODELS, limit_us
from results import row, write
from step import State, Weights, run
from variants import TORCH, flags_of


class Case:
    """One model, number of rows and context on the GPU."""

    def __init__(self, options, weights, folded, context, rows, positions):
        self.options, self.weights, self.folded, self.context = options, weights, folded, context
        self.model, self.rows, self.positions = weights.model, rows, positions
        self.stream = torch.cuda.Stream()
        self.state = State(weights, rows, positions, options.early)
        self.failures, self.plans = {}, None
        self.state.reset()
        self.wanted = reference.logits(weights, self.state)
        torch.cuda.synchronize()  # all else runs on a stream of its own

    def measure(self, meter):
        """Rows of the results file."""
        torch._dynamo.reset()
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
        begin = time.perf_counter()
        try:
            graph, contestant = self._graph(name, attention=True)
            error = check(self._error_of(graph, contestant), self.own, self.options.slack)
            bare, _ = self._graph(name, attention=False, contestant=contestant)
        except Exception as failure:  # of any contestant: the others go on
            self.failures[name] = f"{type(failure).__name__}: {failure}"[:500]
            torch.cuda.synchronize()
            return None
        about = {"early": self.options.early, "kernels": graph.kernels, "kernels_without_attention": bare.kernels, "rel_error": error,
                 "eager_error": self.own, "ready_s": time.perf_counter() - begin, **self._plan_figures(name)}
        return graph, bare, about

    def _graph(self, name, attention, contestant=None):
        with torch.no_grad():
            with torch.cuda.stream(self.stream):
                self.state.reset()
                contestant = contestant or self._contestant(name)
            return Graph(lambda: run(contestant, self.weights, self.state, attention), self.stream), contestant

    def _contestant(self, name):
        if name == "serving":
            return Serving(self.weights)
        if name in TORCH:
            return Torch(self.weights, name)
        flags = flags_of(name)
        return Sinter(self.folded if "folded" in flags else self.weights, self.state, self._plans().of(flags), flags)

    def _plans(self):
        """Prepared for all variants at once, when the first needs one."""
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
        with torch.cuda.stream(self.stream):
            self.state.reset()
            self.state.poison()
            graph.result.fill_(float("nan"))
            getattr(contestant, "poison", lambda: None)()
            graph.replay()
            self.stream.synchronize()
            return relative_error(graph.result, self.wanted)


def report(found, failures, model, rows, positions):
    limit = limit_us(model, rows, positions)
    for one in found:
        print(f"{model.name:13} M {rows:<4} context {positions:<5} {one['contestant']:22} {one['step_us']:8.1f} us  "
              f"without attention {one['without_attention_us']:8.1f}  kernels {one['kernels']}  "
              f"error {one['rel_error']:.1e}  limit / us {limit / one['step_us']:.2f}", flush=True)
    for name, why in failures.items():
        print(f"{model.name:13} M {rows:<4} context {positions:<5} {name:22} FAILED {why}", flush=True)


def machine():
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
            "library": sinter.build_info(), "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}


def run_cases(options):
    """Measures all; whether nothing failed."""
    begin, found, failed = time.perf_counter(), [], []
    about, context = machine(), sinter.Context(0)
    meter = Meter(pci_bus_id(0))
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


def warm_only(options):
    """Each contestant's functions once, on a model of two layers."""
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
