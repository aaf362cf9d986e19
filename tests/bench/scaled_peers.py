#!/usr/bin/env python3
"""FFN layers of 8-bit weights: PyTorch as servers run it, cuBLASLt, Triton and Sinter in one process, interleaved.

Usage: scaled_peers.py --out OUT.json [--models A,B] [--rows 1,16] [--contestants NAME,..] [--seconds S]. Needs a GPU and PyTorch; Sinter
by the package `sinter`. Models are the layers of scaled_layers.py: S1 to S8, G4 to G10 and R1 to R40 have their own rows.

A layer: norm and quantise, gate and up, silu * up and quantise, down, residual; without a gate relu and quantise. Scales are one of a row
and one of a channel, or with -block in a contestant's name those of 1 x 128 and 128 x 128. Each contestant is a CUDA graph of at least 24
calls; replays of all graphs are interleaved. Weights rotate over more than 240 MB, so that they come from HBM. A result that differs from
float64 of the same codes of the weights by more than codes of activations explain is not timed. The file is written after every case.
Contestants:
  promoted, fast      torch._scaled_mm, gate and up side by side, with compiled kernels for the rest; fast: its accumulation
  promoted-block      the same with blocks' scales
  no_residual         promoted, the residual left to the next layer's norm
  cublaslt, cublaslt_fast   cuBLASLt's products, the fastest of 16 of its heuristics' choices
  triton              products of Triton, the fastest of some forms; the tensor cores' own accumulation
  deepgemm-block      as promoted-block, by DeepGEMM's products: sgl-deep-gemm 0.1.5, apache-tvm-ffi 0.1.11; later ones need a later PyTorch than 2.11
  sinter, unfused, sinter-block   the chosen plan; a kernel for each op
  sinter_rounded      what the second quantiser reads is bf16, as in all contestants of PyTorch's products
  sinter_fast         sums may stay in the tensor cores, as those of fast
  sinter_bf16         weights and operands of products are bf16
  tuned               the plan that `Context.tune` chooses
"""

import argparse
import os
import sys
import tempfile
import time

import rows_file
import turns
from scaled_layers import LAYERS, MODELS

CONTESTANTS = ("promoted fast promoted-block no_residual cublaslt cublaslt_fast triton deepgemm-block sinter sinter-block "
               "sinter_rounded sinter_fast sinter_bf16").split()
OF_SINTER = ("sinter", "sinter_rounded", "sinter_fast", "sinter_bf16", "unfused", "tuned")
ROWS = (1, 16, 64, 128, 256, 1024)
ROTATED, LEAST_CALLS = 240e6, 24
WORST = 0.08  # of codes with three fraction bits, twice
EPS = 1e-5


def chain(sinter, k, n, scales, gated=True, rounded=False, accumulate="promoted"):
    """x, norm, gate if there is one, up, down -> y; each matrix is followed by its scales, or is bf16 where `scales` is None."""
    b = sinter.Builder()
    x, gamma = b.input("bf16", (sinter.M, k)), b.constant("bf16", (k,))

    def matrix(rows, columns):
        if scales is None:
            return b.constant("bf16", (rows, columns))
        shape = (rows, 1) if scales == "row" else (-(-rows // 128), columns // 128)
        return sinter.Scaled(b.constant("e4m3", (rows, columns)), b.constant("f32", shape))

    def operand(value):
        return value.cast("bf16") if scales is None else sinter.quantize(value, sinter.Quantizer(scales))

    def product(value, weights):
        return value @ weights.T if scales is None else sinter.scaled_matmul(value, weights, accumulate=accumulate)

    gate, up, down = matrix(n, k) if gated else None, matrix(n, k), matrix(k, n)
    first = operand(sinter.rmsnorm(x, gamma, eps=EPS))
    inner = product(first, up)
    inner = sinter.silu(product(first, gate)) * inner if gated else sinter.relu(inner)
    if rounded:
        inner = inner.cast("bf16").cast("f32")
    return b.finish((product(operand(inner), down) + x).cast("bf16"))


def scales_of(contestant):
    """What shares a scale in a contestant's weights; None: they are bf16."""
    if contestant == "sinter_bf16":
        return None
    return "group" if contestant.endswith("-block") else "row"


class Layer:
    """Weights in one kind of codes, or in bf16, without scales. Without a gate `gate_up` is only up."""

    def __init__(self, gamma, matrices, scales, gated):
        self.gamma, self.gated = gamma, gated
        (self.gate_up, self.gate_up_scale), (self.down, self.down_scale) = (codes_of(one, scales) for one in matrices)

    def buffers(self):
        """As Sinter takes them."""
        first = [one.chunk(2 if self.gated else 1) for one in (self.gate_up, self.gate_up_scale) if one is not None]
        second = [one for one in (self.down, self.down_scale) if one is not None]
        return self.gamma, *(one for half in zip(*first) for one in half), *second


def codes_of(matrix, scales):
    from step import Codes  # of decode

    if scales is None:
        return matrix.bfloat16(), None
    found = Codes.of(matrix, scales)
    return found.codes, found.scale


class Functions:
    """What PyTorch computes between products, compiled once for any number of rows."""

    def __init__(self, torch):
        from step import quantize

        self.torch = torch
        silu, rms_norm = torch.nn.functional.silu, torch.nn.functional.rms_norm

        def codes(x, scales):
            found, scale = quantize(x, scales)
            return found, scale.t().contiguous().t()  # column by column, as products of groups want them

        def norm(x, gamma, scales):
            return codes(rms_norm(x.float(), gamma.shape, gamma.float(), EPS), scales)

        def gate(both, scales):
            left, right = both.float().chunk(2, -1)
            return codes(silu(left) * right, scales)

        def relu(x, scales):
            return codes(x.float().relu(), scales)

        self.norm, self.gate, self.relu, self.add = (self._compiled(f) for f in (norm, gate, relu, lambda x, y: x + y))

    def _compiled(self, function):
        kernel = self.torch.compile(function)

        def call(x, *rest):
            if x.shape[0] > 1:
                for tensor in (x, *(t for t in rest if isinstance(t, self.torch.Tensor) and t.dim() == 2)):
                    self.torch._dynamo.maybe_mark_dynamic(tensor, 0)
            return kernel(x, *rest)

        return call


class Case:
    """A layer's extents and number of rows: sets of weights, x of each, and what the first result must be."""

    context = None  # of Sinter, for all cases

    def __init__(self, torch, functions, sizes, m):
        self.torch, self.functions, self.m = torch, functions, m
        self.k, self.n, self.gated = k, n, gated = sizes[:3]
        self.columns = 2 * n if gated else n  # of the first product
        self.stream, self.kept, self.about = torch.cuda.Stream(), [], {}
        count = 1 + int(ROTATED / ((self.columns + n) * k))
        make = lambda rows, columns: torch.randn(rows, columns, device="cuda") / columns**0.5
        plain = [(torch.rand(k, device="cuda").bfloat16() + 0.5, (make(self.columns, k), make(k, n))) for _ in range(count)]
        self.layers = {scales: [Layer(*one, scales, gated) for one in plain] for scales in ("row", "group", None)}
        self.xs = [torch.randn(m, k, device="cuda").bfloat16() for _ in range(count)]
        self.wanted = {scales: self._reference(self.layers[scales][0]) for scales in self.layers}
        torch.cuda.synchronize()  # contestants run on a stream of their own

    def _reference(self, layer):
        from step import Codes

        x, functional = self.xs[0][:64].double(), self.torch.nn.functional
        wide = lambda matrix, scale: matrix.double() if scale is None else Codes(matrix, scale).float().double()
        sums = functional.rms_norm(x, (self.k,), layer.gamma.double(), EPS) @ wide(layer.gate_up, layer.gate_up_scale).t()
        left, right = sums.chunk(2, -1) if self.gated else (None, sums)
        inner = functional.silu(left) * right if self.gated else right.relu()
        return x, inner @ wide(layer.down, layer.down_scale).t()

    def check(self, calls, scales, residual):
        """The relative error of the first set's result, which was poisoned before."""
        torch = self.torch
        with torch.cuda.stream(self.stream):
            calls[0]().fill_(float("nan"))
            got = calls[0]()[:64].double()
        torch.cuda.synchronize()
        x, y = self.wanted[scales]
        error = ((got - (x if residual else 0) - y).norm() / y.norm()).item()
        if not error <= WORST:
            raise RuntimeError(f"wrong: relative error {error:.2e}")
        return error

    def each(self, scales, call):
        return [lambda x=x, layer=layer: call(x, layer) for x, layer in zip(self.xs, self.layers[scales])]

    def by_products(self, scales, first, second, residual=True):
        """Calls of a layer of two products, functions of codes, scale, weights, their scale."""
        functions = self.functions

        def call(x, layer):
            both = first(*functions.norm(x, layer.gamma, scales), layer.gate_up, layer.gate_up_scale)
            between = functions.gate if self.gated else functions.relu
            y = second(*between(both, scales), layer.down, layer.down_scale)
            return functions.add(x, y) if residual else y

        return self.each(scales, call)

    def scaled_mm(self, fast):
        def product(codes, scale, weights, weight_scale):
            return self.torch._scaled_mm(codes, weights.t(), scale_a=scale, scale_b=weight_scale.t(), out_dtype=self.torch.bfloat16,
                                         use_fast_accum=fast)

        return product

    def deep_gemm(self):
        import deep_gemm

        def product(codes, scale, weights, weight_scale):
            y = self.torch.empty(codes.shape[0], weights.shape[0], dtype=self.torch.bfloat16, device="cuda")
            deep_gemm.fp8_gemm_nt((codes, scale), (weights, weight_scale), y)
            return y

        return product

    def chosen(self, make):
        """Two products, each with the choice that is fastest over the rotated weights."""
        torch, found = self.torch, []
        for n, k, of in ((self.columns, self.k, "gate_up"), (self.k, self.n, "down")):
            product = make(self.m, n, k)
            codes = (torch.randn(self.m, k, device="cuda")).to(torch.float8_e4m3fn)
            scale = torch.ones(self.m, 1, device="cuda")

            def time_us(choice):
                matrices = [(getattr(one, of), getattr(one, f"{of}_scale")) for one in self.layers["row"]]
                calls = [lambda one=one: product(codes, scale, *one, choice) for one in matrices]
                calls = calls * -(-8 // len(calls))
                graph, _ = turns.capture(torch, self.stream, calls)
                return turns.replayed(torch, {"one": (graph, len(calls))}, rounds=3)["one"]["us"]

            found.append(product.choose(time_us))
        return found

    def sinter(self, name, scales):
        import sinter

        if Case.context is None:
            Case.context = sinter.Context()
        accumulate = "fast" if name == "sinter_fast" else "promoted"
        described = chain(sinter, self.k, self.n, scales, self.gated, name == "sinter_rounded", accumulate)
        context = self.tuned(sinter, described) if name == "tuned" else Case.context
        plan = context.prepare(described, self.m, choice="unfused" if "unfused" in name else "best")
        self.about[name] = {"kernels": plan.kernel_count, "predicted_us": plan.predicted_us, "digest": plan.digest}
        with self.torch.cuda.stream(self.stream):
            bindings = [plan.bind(x, *layer.buffers()) for x, layer in zip(self.xs, self.layers[scales])]
        return bindings

    def tuned(self, sinter, described):
        """A context that takes the measured choice."""
        choices = sinter.TuningSet()
        Case.context.tune(described, self.m, into=choices)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "choices.set")
            choices.write(path)
            return sinter.Context(tuning_set=path)

    def calls(self, name):
        scales, kind = scales_of(name), name.removesuffix("-block")
        if kind in OF_SINTER:
            return self.sinter(name, scales)
        if kind in ("promoted", "fast", "no_residual"):
            product = self.scaled_mm(kind == "fast")
            return self.by_products(scales, product, product, residual=kind != "no_residual")
        if name == "deepgemm-block":
            product = self.deep_gemm()
            return self.by_products(scales, product, product)
        if kind == "triton":
            from scaled_triton import Product

            return self.by_products(scales, *self.chosen(Product))
        if kind in ("cublaslt", "cublaslt_fast"):
            from cublaslt import Product

            return self.by_products(scales, *self.chosen(lambda *sizes: Product(self.torch, *sizes, kind == "cublaslt_fast")))
        raise ValueError(f"no contestant is called {name!r}")


def measure(case, contestants):
    """{contestant: figures, or why there are none}."""
    torch, rows, ready = case.torch, {}, {}
    for name in contestants:
        try:
            calls = case.calls(name)
            rows[name] = {"relative_error": case.check(calls, scales_of(name), name != "no_residual")}
            calls = calls * -(-LEAST_CALLS // len(calls))
            graph, kept = turns.capture(torch, case.stream, calls)
            ready[name] = (graph, len(calls))
            case.kept.append((calls, kept))  # the graph uses workspaces that the calls own
        except Exception as error:  # one contestant that cannot run leaves the others
            rows[name] = {"failed": f"{type(error).__name__}: {error}"[:500]}
            torch.cuda.synchronize()
    for name, figures in turns.replayed(torch, ready).items():
        rows[name].update(figures)
    for name, about in case.about.items():
        rows[name].update(about)
    return rows


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--cases", default="", help="LAYER@ROWS with commas between, instead of layers and rows")
    parser.add_argument("--models", default=",".join(MODELS), help="layers")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--contestants", default=",".join(CONTESTANTS))
    parser.add_argument("--seconds", type=float, default=600, help="no case begins later")
    return parser.parse_args(arguments)


def asked(options):
    """{layer: numbers of rows} of the command line."""
    if not options.cases:
        return {name: [LAYERS[name].m] if LAYERS[name].m else list(map(int, options.rows.split(","))) for name in options.models.split(",")}
    found = {}
    for case in options.cases.split(","):
        name, _, m = case.partition("@")
        found.setdefault(name, []).append(int(m))
    return found


def main(arguments):
    options = parse(arguments)
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no GPU")
        return 77
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "decode"))
    torch.manual_seed(1)
    begin, left, result = time.monotonic(), 0, {**turns.machine(torch), "rows": []}
    for name, rows_of in asked(options).items():
        torch._dynamo.reset()  # a model's columns are constants
        functions = Functions(torch)
        sizes = LAYERS[name]
        for m in rows_of:
            if time.monotonic() - begin > options.seconds:
                left += 1
                continue
            with torch.no_grad():
                case = Case(torch, functions, sizes, m)
                rows = measure(case, options.contestants.split(","))
            result["rows"].append({"model": name, "m": m, "sets": len(case.xs), "contestants": rows})
            print(name, m, *[f"{key} {row.get('us', float('nan')):.2f}" for key, row in rows.items()], flush=True)
            for key, row in rows.items():
                if "failed" in row:
                    print(f"  {key}: {row['failed']}", flush=True)
            rows_file.write(options.out, result)
            del case
            torch.cuda.empty_cache()
    if left:
        print(f"{left} left; run the command again with more --seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
