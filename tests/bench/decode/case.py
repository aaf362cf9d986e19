"""One case, measured on the GPU; and all cases of a run."""

import datetime
import time

import torch

import reference
import sinter
from contestants import Plans, Serving, Sinter, Torch
from measure import Graph, Meter, check, energy, in_turns, pci_bus_id, relative_error, timeline
from models import ALL, SCALES, limit_us
from results import row, write
from step import State, Weights, run
from variants import flags_of, torch_of, weights_of


class Case:
    """One model, number of rows and context on the GPU. `weights`: by their kind, "bf16", "folded", "fp8", "fp8-block"."""

    def __init__(self, options, weights, context, rows, positions):
        self.options, self.weights, self.context = options, weights, context
        self.model, self.rows, self.positions = weights["bf16"].model, rows, positions
        self.stream = torch.cuda.Stream()
        self.state = State(weights["bf16"], rows, positions, options.early)
        self.failures, self.plans, self.own = {}, None, {}
        self.state.reset()
        self.wanted = {kind: reference.logits(weights[kind], self.state) for kind in kinds_of(options.contestants)}
        torch.cuda.synchronize()  # all else runs on a stream of its own

    def measure(self, meter):
        """Rows of the results file."""
        torch._dynamo.reset()
        for kind in self.wanted:
            self.own[kind] = self._error_of(kind, *self._graph("eager" if kind == "bf16" else f"eager-{kind}", attention=True))
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
        begin, (kind, _) = time.perf_counter(), weights_of(name)
        try:
            graph, contestant = self._graph(name, attention=True)
            error = check(self._error_of(kind, graph, contestant), self.own[kind], self.options.slack)
            bare, _ = self._graph(name, attention=False, contestant=contestant)
        except Exception as failure:  # of any contestant: the others go on
            self.failures[name] = f"{type(failure).__name__}: {failure}"[:500]
            torch.cuda.synchronize()
            return None
        about = {"early": self.options.early, "kernels": graph.kernels, "kernels_without_attention": bare.kernels, "rel_error": error,
                 "eager_error": self.own[kind], "ready_s": time.perf_counter() - begin, **self._plan_figures(name)}
        return graph, bare, about

    def _graph(self, name, attention, contestant=None):
        with torch.no_grad():
            with torch.cuda.stream(self.stream):
                self.state.reset()
                contestant = contestant or self._contestant(name)
            return Graph(lambda: run(contestant, self.weights["bf16"], self.state, attention), self.stream), contestant

    def _contestant(self, name):
        kind, _ = weights_of(name)
        if name == "serving":
            return Serving(self.weights[kind])
        if torch_of(name):
            return Torch(self.weights[kind], *torch_of(name))
        flags = flags_of(name)
        weights = self.weights["folded" if "folded" in flags else kind]
        return Sinter(weights, self.state, self._plans().of(flags, SCALES.get(kind)), flags)

    def _plans(self):
        """Prepared for all variants at once, when the first needs one."""
        if self.plans is None:
            variants = [(flags_of(name), SCALES.get(weights_of(name)[0])) for name in self.options.contestants if not torch_of(name)]
            self.plans = Plans(self.context, self.model, self.rows, variants)
        return self.plans

    def _plan_figures(self, name):
        if torch_of(name):
            return {}
        plans = self._plans().of(flags_of(name), SCALES.get(weights_of(name)[0]))
        return {"prepare_s": self.plans.seconds, "digests": {part: plan.digest for part, plan in plans.items()},
                "plan_kernels": {part: plan.kernel_count for part, plan in plans.items()},
                "predicted_us": {part: plan.predicted_us for part, plan in plans.items()}}

    def _error_of(self, kind, graph, contestant):
        """The error of one replay on buffers that hold no number before."""
        with torch.cuda.stream(self.stream):
            self.state.reset()
            self.state.poison()
            graph.result.fill_(float("nan"))
            getattr(contestant, "poison", lambda: None)()
            graph.replay()
            self.stream.synchronize()
            return relative_error(graph.result, self.wanted[kind])


def kinds_of(contestants):
    """Kinds of weights whose results are needed, "bf16" first."""
    found = {weights_of(name)[0] for name in contestants}
    return [kind for kind in ("bf16", *SCALES) if kind in found]


def weights_for(options, model):
    """By their kind; bf16 is always there, the others as contestants need them."""
    made = {"bf16": Weights(model, "cuda")}
    if any("folded" in name for name in options.contestants):
        made["folded"] = made["bf16"].folded()
    for kind in kinds_of(options.contestants):
        if kind in SCALES:
            made[kind] = made["bf16"].quantized(SCALES[kind])
    return made


def report(found, failures, model, rows, positions):
    for one in found:
        limit = limit_us(model, rows, positions, scales=SCALES.get(weights_of(one["contestant"])[0]))
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
        weights = weights_for(options, ALL[name])
        for positions, rows in [(p, r) for p in options.contexts for r in options.cases[name]]:
            if time.perf_counter() - begin > options.seconds:
                failed.append({"model": name, "rows": rows, "context": positions, "why": "no time left"})
                continue
            case = None
            try:
                case = Case(options, weights, context, rows, positions)
                measured, failures = case.measure(meter), case.failures
                for one in measured:
                    one["clock_mhz"] = meter.clock_mhz()
            except Exception as failure:  # the others go on
                measured, failures = [], {"case": f"{type(failure).__name__}: {failure}"[:500]}
            found += measured
            failed += [{"model": name, "rows": rows, "context": positions, "contestant": who, "why": why}
                       for who, why in failures.items()]
            report(measured, failures, ALL[name], rows, positions)
            write(options.out, about, found, failed)
            del case
            torch.cuda.empty_cache()
        del weights
    return not failed


def warm_only(options):
    """Each contestant's functions once, on a model of two layers."""
    with torch.no_grad():
        for name in options.models:
            plain = Weights(ALL[name], "cuda", layers=2)
            made = {kind: plain if kind == "bf16" else plain.quantized(SCALES[kind]) for kind in kinds_of(options.contestants)}
            for rows in options.cases[name]:
                make = lambda columns: torch.ones(rows, columns, device="cuda", dtype=torch.bfloat16)
                for mode in options.contestants:
                    torch._dynamo.reset()
                    contestant = Torch(made[weights_of(mode)[0]], *torch_of(mode))
                    stream, attended = make(plain.model.hidden), make(plain.model.q)
                    try:
                        contestant.first(stream)
                        contestant.between(0, attended, stream)
                        contestant.last(attended, stream)
                    except RuntimeError:  # the measurement reports it; the others are compiled
                        continue
