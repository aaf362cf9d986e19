#!/usr/bin/env python3
"""Convolution chains of a problem list: PyTorch, cuDNN, cuBLAS and Sinter in one process, interleaved.

Usage: conv_peers.py LIST --out OUT.json [--ids C1,C5] [--batch 8] [--cases C1@8,C5@1] [--contestants NAME,..] [--limit 30] [--hot] [--calls]. Needs a
GPU and PyTorch; Sinter by the package `sinter`. Inputs are bf16 in channels_last memory, which is NHWC with OHWI filters.

Each contestant is a CUDA graph of at least 20 calls; replays of all graphs are interleaved. x, filters and outputs rotate over more
than 240 MB, so that they come from HBM; --hot has one set. --calls: no graphs, calls back to back, host time included. A result
that differs from float64 by more than bf16's bounds is not timed. The file is written after every chain. Contestants:
  heuristics, benchmark   eager convolution, ReLU, convolution; cuDNN's choices by its heuristics, and the fastest of all its plans
  fused_relu              cuDNN's convolution with ReLU through PyTorch, then convolution; the fastest of all plans
  linear                  filters of one tap as products of the pixels (cuBLAS); linear_relu: ReLU in the first one's epilogue
  cudnn                   cuDNN's graph API, the fastest of all plans: convolution with ReLU, then convolution
  compile, autotune       torch.compile, default and max-autotune; autotune_cudnn: max-autotune with convolutions only by cuDNN
  sinter, unfused         the chosen plan; a kernel for each convolution
"""

import argparse
import sys

import rows_file
import turns

CONTESTANTS = "heuristics benchmark fused_relu linear linear_relu cudnn sinter unfused compile autotune_cudnn autotune".split()
ROTATED = 240e6
LEAST_CALLS = 20
RELATIVE, OF_RMS = 5e-3, 0.05  # as src/reference/compare.h for bf16


def problems(path):
    """(id, line, {key: number}) of a list's convolution chains."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if len(words) > 2 and words[1] == "conv_chain":
                keys = dict(word.split("=") for word in words[2:])
                if keys.get("stride", "1") != "1" or keys.get("pad", "same") != "same" or keys.get("act") != "relu":
                    raise ValueError(f"{words[0]}: only stride=1 pad=same act=relu is measured here")
                yield words[0], " ".join(words[1:]), {key: int(value) for key, value in keys.items() if value.isdigit()}


def with_batch(line, batch):
    """The line for another number of images."""
    return " ".join(f"b={batch}" if word.startswith("b=") else word for word in line.split())


def chain_function(functional):
    def conv(x, w):
        return functional.conv2d(x, w, padding=w.shape[2] // 2)

    return lambda x, w1, w2: conv(functional.relu(conv(x, w1)), w2)


class Case:
    """One chain: its sets of x, w1 and w2, and what its results must be."""

    context = None  # of Sinter, for all chains

    def __init__(self, torch, p, line, hot):
        self.torch, self.functional, self.p, self.line = torch, torch.nn.functional, p, line
        first = self._make()
        outputs = p["b"] * p["oc2"] * p["h"] * p["w"]
        size = 2 * (sum(t.numel() for t in first) + outputs)
        self.sets = [first] + [self._make() for _ in range(0 if hot else int(ROTATED / size))]
        self.stream, self.kept, self.plans = torch.cuda.Stream(), [], {}
        self.eager = chain_function(self.functional)
        x, w1, w2 = [t.double().contiguous() for t in first]
        self.wanted = self.eager(x, w1, w2)

    def _make(self):
        p = self.p
        shapes = [(p["b"], p["ic"], p["h"], p["w"]), (p["oc1"], p["ic"], p["k1"], p["k1"]),
                  (p["oc2"], p["oc1"], p["k2"], p["k2"])]
        return [(self.torch.randn(*shape, device="cuda") * 0.1).bfloat16().to(memory_format=self.torch.channels_last)
                for shape in shapes]

    def conv(self, x, w):
        return self.functional.conv2d(x, w, padding=w.shape[2] // 2)

    def fused_relu(self, x, w1, w2):
        pad = [w1.shape[2] // 2] * 2
        return self.conv(self.torch.cudnn_convolution_relu(x, w1, None, [1, 1], pad, [1, 1], 1), w2)

    @staticmethod
    def pixels(x):
        return x.permute(0, 2, 3, 1).reshape(-1, x.shape[1])

    def images(self, rows):
        p = self.p
        return rows.view(p["b"], p["h"], p["w"], -1).permute(0, 3, 1, 2)

    def linear(self, x, w1, w2, relu_in_epilogue=False):
        """Every filter of one tap as a product; with `relu_in_epilogue` the first product's ReLU is cuBLAS's."""
        def product(images, w):
            if w.shape[2] > 1:
                return self.conv(images, w)
            return self.images(self.functional.linear(self.pixels(images), w.flatten(1)))

        if relu_in_epilogue:
            c = self.images(self.torch._addmm_activation(self.zeros, self.pixels(x), w1.flatten(1).t(), use_gelu=False))
        else:
            c = self.functional.relu(product(x, w1))
        return product(c, w2)

    def each(self, function):
        """A call for each set."""
        return [lambda s=s: function(*s) for s in self.sets]

    def calls(self, name):
        """The calls of a contestant, one for each set; None where it has nothing to say."""
        torch = self.torch
        torch.backends.cudnn.benchmark = name != "heuristics"
        if name in ("heuristics", "benchmark"):
            return self.each(self.eager)
        if name == "fused_relu":
            return self.each(self.fused_relu)
        if name in ("linear", "linear_relu"):
            if self.p["k2"] > 1 or (name == "linear_relu" and self.p["k1"] > 1):
                return None
            self.zeros = torch.zeros(self.p["oc1"], device="cuda", dtype=torch.bfloat16)
            return self.each(lambda x, w1, w2: self.linear(x, w1, w2, name == "linear_relu"))
        if name in turns.COMPILE_OPTIONS:
            return self.each(turns.compiled(torch, self.eager, name))
        if name == "cudnn":
            return CudnnGraphs(self).calls()
        return self.sinter(name)

    def sinter(self, name):
        import sinter

        if Case.context is None:
            Case.context = sinter.Context()
        plan = Case.context.prepare(self.line, self.p["b"], choice="unfused" if name == "unfused" else "best")
        self.plans[name] = {"plan": plan.name, "predicted_us": plan.predicted_us}
        nhwc = [[t.permute(0, 2, 3, 1) for t in s] for s in self.sets]
        with self.torch.cuda.stream(self.stream):
            bindings = [plan.bind(*s) for s in nhwc]
        return [lambda b=b: b().permute(0, 3, 1, 2) for b in bindings]

    def check(self, calls):
        """Raises where the first set's result is wrong; poison shows unwritten elements."""
        torch = self.torch
        with torch.cuda.stream(self.stream):
            calls[0]().fill_(float("nan"))
            got = calls[0]().double()
        torch.cuda.synchronize()
        difference = got - self.wanted
        relative = (difference.norm() / self.wanted.norm()).item()
        largest = (difference.abs().max() / self.wanted.square().mean().sqrt()).item()
        if not (relative <= RELATIVE and largest <= OF_RMS):
            raise RuntimeError(f"wrong: relative error {relative:.2e}, largest {largest:.2e} of the rms")
        return {"relative_error": relative, "largest_of_rms": largest}


class CudnnGraphs:
    """Two graphs of cuDNN's frontend, each with the fastest of its plans."""

    def __init__(self, case):
        import cudnn

        self.cudnn, self.case, self.torch = cudnn, case, case.torch
        self.handle = cudnn.create_handle()
        x, w1, w2 = case.sets[0]
        c, y = self._like(x, w1), self._like(x, w2)
        self.first = self._fastest(x, w1, c, True)
        self.second = self._fastest(c, w2, y, False)

    def _like(self, x, w):
        shape = (x.shape[0], w.shape[0], x.shape[2], x.shape[3])
        return self.torch.empty(shape, device="cuda", dtype=x.dtype, memory_format=self.torch.channels_last)

    def _graph(self, x, w, y, relu):
        cudnn, kind = self.cudnn, self.cudnn.data_type
        graph = cudnn.pygraph(io_data_type=kind.BFLOAT16, intermediate_data_type=kind.FLOAT, compute_data_type=kind.FLOAT,
                              handle=self.handle)

        def tensor(name, t):
            stride = [t.shape[1] * t.shape[2] * t.shape[3], 1, t.shape[1] * t.shape[3], t.shape[1]]
            return graph.tensor(name=name, dim=list(t.shape), stride=stride, data_type=kind.BFLOAT16)

        image, weight = tensor("x", x), tensor("w", w)
        pad = [w.shape[2] // 2] * 2
        result = graph.conv_fprop(image=image, weight=weight, padding=pad, stride=[1, 1], dilation=[1, 1])
        if relu:
            result = graph.relu(input=result)
        result.set_output(True).set_data_type(kind.BFLOAT16)
        result.set_dim(list(y.shape)).set_stride([y.shape[1] * y.shape[2] * y.shape[3], 1, y.shape[1] * y.shape[3], y.shape[1]])
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.B, cudnn.heur_mode.FALLBACK])
        return graph, (image, weight, result)

    def _fastest(self, x, w, y, relu):
        """A function of x, w and y."""
        graph, keys = self._graph(x, w, y, relu)
        best, best_us, refused = None, float("inf"), None
        for index in range(graph.get_execution_plan_count()):
            try:
                graph.build_plan_at_index(index)
                workspace = self.torch.empty(max(1, graph.get_workspace_size_plan_at_index(index)), device="cuda",
                                             dtype=self.torch.uint8)
                run = self._runner(graph, keys, workspace, index)
                captured, _ = turns.capture(self.torch, self.case.stream, [lambda: run(x, w, y)] * LEAST_CALLS)
                us = turns.replayed(self.torch, {"plan": (captured, LEAST_CALLS)}, rounds=5)["plan"]["us"]
            except Exception as error:  # a plan that cannot be built or captured leaves the others
                refused = error
                continue
            if us < best_us:
                best, best_us = run, us
        if best is None:
            raise RuntimeError(f"no plan of cuDNN runs: {refused}")
        return best

    def _runner(self, graph, keys, workspace, index):
        def run(*tensors):
            self.cudnn.set_stream(handle=self.handle, stream=self.torch.cuda.current_stream().cuda_stream)
            graph.execute_plan_at_index(dict(zip(keys, tensors)), workspace, index, handle=self.handle)

        return run

    def calls(self):
        def call(x, w1, w2):
            c, y = self._like(x, w1), self._like(x, w2)
            self.first(x, w1, c)
            self.second(c, w2, y)
            return y

        return self.case.each(call)


def measure(case, contestants, in_calls, limit=0):
    """{contestant: figures, or why there are none}."""
    torch, rows, ready = case.torch, {}, {}
    for name in contestants:
        if in_calls and name == "heuristics":
            continue  # all contestants are timed in cuDNN's one mode
        try:
            with turns.within(limit):
                calls = case.calls(name)
                if calls is None:
                    continue
                rows[name] = case.check(calls)
            if in_calls:
                ready[name] = calls
            else:
                calls = calls * -(-LEAST_CALLS // len(calls))
                graph, kept = turns.capture(torch, case.stream, calls)
                ready[name] = (graph, len(calls))
                rows[name]["calls"] = len(calls)
                case.kept.append((calls, kept))  # the graph uses workspaces that the calls own
        except Exception as error:  # one contestant that cannot run leaves the others
            rows.setdefault(name, {})["failed"] = f"{type(error).__name__}: {error}"[:500]
            torch.cuda.synchronize()
    torch.backends.cudnn.benchmark = True
    figures = turns.called(torch, case.stream, ready) if in_calls else turns.replayed(torch, ready)
    for name, values in figures.items():
        rows[name].update(values)
    for name, plan in case.plans.items():
        rows[name].update(plan)
    return rows


def asked(arguments, listed):
    """{id: images, None as the list says} of the command line."""
    if arguments.cases:
        return {name: int(images) for name, images in (case.split("@") for case in arguments.cases.split(","))}
    return {name: arguments.batch for name in ([name for name in arguments.ids.split(",") if name] or listed)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list")
    parser.add_argument("--out", required=True)
    parser.add_argument("--ids", default="", help="only these, with commas between")
    parser.add_argument("--batch", type=int, help="images, in place of the list's")
    parser.add_argument("--cases", default="", help="ID@IMAGES with commas between, instead of both")
    parser.add_argument("--contestants", default=",".join(CONTESTANTS))
    parser.add_argument("--limit", type=float, default=0, help="seconds to make one contestant of one chain ready; 0: any")
    parser.add_argument("--hot", action="store_true", help="one set of tensors")
    parser.add_argument("--calls", action="store_true", help="without graphs, host time included")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark_limit = 0  # benchmark mode tries all plans
    torch.manual_seed(1)
    wanted = asked(arguments, dict.fromkeys(name for name, *_ in problems(arguments.list)))
    result = {**turns.machine(torch), "hot": arguments.hot, "graphs": not arguments.calls, "rows": []}
    for name, line, p in problems(arguments.list):
        if name not in wanted:
            continue
        p["b"] = wanted[name] or p["b"]
        with torch.no_grad():
            case = Case(torch, p, with_batch(line, p["b"]), arguments.hot)
            rows = measure(case, arguments.contestants.split(","), arguments.calls, arguments.limit)
        result["rows"].append({"id": name, "batch": p["b"], "sets": len(case.sets), "contestants": rows})
        print(name, *[f"{key} {row.get('us', float('nan')):.2f}" for key, row in rows.items()], flush=True)
        for key, row in rows.items():
            if "failed" in row:
                print(f"  {key}: {row['failed']}", flush=True)
        rows_file.write(arguments.out, result)
        del case
        torch.cuda.empty_cache()
    print(f"wrote {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
