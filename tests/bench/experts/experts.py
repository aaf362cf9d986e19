"""Whole layers of experts, interleaved on one GPU: router, softmax, top-k, renormalised weights, experts, weighted sum, residual.

    python3 experts.py --out FILE [--models qwen3-30b,mixtral-tp2] [--rows 1,64] [--seconds 560]
    python3 experts.py --out FILE --cases qwen3-30b@64:uniform,mixtral-tp2@37:zipf

Needs a GPU, PyTorch, Triton and the package `sinter`. Run again with the same file it measures the rest. Layers rotate, and each call has
rows of its own, so that neither matrices nor ids of a call lie in L2. Contestants, all bf16 with f32 logits, or where the
model's name ends in -fp8 with experts of e4m3 (scales of 128 x 128, rows of 1 x 128), in CUDA graphs:
  sinter     one plan of the whole layer, chosen by prediction
  triton     vLLM's launches in Triton (triton_experts.py), the best of its tiles for each number of rows
  torch      sort, torch.nn.functional.grouped_mm, silu and mul, grouped_mm, sum, by torch.compile
  vllm, sonicmoe, deepgemm   after Triton's router: vLLM's fused_experts, and what transformers calls so; where they load
"""

import argparse
import json
import math
import os
import pathlib
import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import rows_file  # noqa: E402
import turns  # noqa: E402

ROWS = (1, 4, 16, 64, 256, 1024, 4096)
ROUTINGS = ("uniform", "zipf")
LAYERS = 4
CALLS = 16  # of a graph
RELATIVE = 8e-3  # Frobenius, to float64, of bf16 results that were rounded a few times
RELATIVE_CODES = 6e-2  # if rows and the values between the products have four bits: some 4e-2
# Bytes a second that a stream reaches, bf16 and e4m3 FLOP a second; microseconds that a kernel takes besides.
RATES = {"H200": (4.55e12, 790e12, 1500e12), "H100": (3.20e12, 790e12, 1500e12)}
LAUNCH_US = 2.5


@dataclass(frozen=True)
class Model:
    """`inner`: an expert's width on one GPU of those that share the layer."""

    experts: int
    top: int
    hidden: int
    inner: int
    codes: bool = False  # experts of e4m3

    @property
    def relative(self):
        return RELATIVE_CODES if self.codes else RELATIVE

    def limit_us(self, rows: int, touched: float, gpu: str) -> float:
        """What `touched` experts' matrices, the router's, and rows take from memory, or the products from tensor cores."""
        read, wide, narrow = next((rates for name, rates in RATES.items() if name in gpu), RATES["H100"])
        matrices = (1 if self.codes else 2) * touched * 3 * self.inner * self.hidden
        moved = matrices + 2 * (self.experts * self.hidden + 3 * rows * self.hidden)
        flop = 2 * rows * self.hidden
        compute = flop * self.top * 3 * self.inner / (narrow if self.codes else wide) + flop * self.experts / wide
        return max(moved / read, compute) * 1e6 + LAUNCH_US

    def chain(self, sinter):
        b = sinter.Builder()
        x, residual = (b.input("bf16", (sinter.M, self.hidden), name=name) for name in ("x", "residual"))
        router = b.constant("bf16", (self.experts, self.hidden))
        matrices = []
        for rows, columns in ((2 * self.inner, self.hidden), (self.hidden, self.inner)):
            matrices.append(b.constant("e4m3" if self.codes else "bf16", (self.experts, rows, columns)))
            if self.codes:
                matrices.append(b.constant("f32", (self.experts, -(-rows // 128), columns // 128)))
        likely = sinter.softmax(x @ router.T)
        ids = sinter.top_k(likely, self.top)
        chosen = likely.take(ids)
        weights = chosen / chosen.sum(-1, keepdims=True)
        if self.codes:
            quantizer = sinter.Quantizer("group")
            w1, w2 = (sinter.Scaled(*matrices[i : i + 2]) for i in (0, 2))
            y = sinter.scaled_grouped_gated_ffn(sinter.quantize(x, quantizer), ids, weights, w1, w2, quantizer=quantizer)
            return b.finish((y + residual).cast("bf16"))
        return b.finish((sinter.grouped_gated_ffn(x, ids, weights, *matrices) + residual).cast("bf16"))


MODELS = {
    "qwen3-30b": Model(128, 8, 2048, 768), "qwen3-235b-tp8": Model(128, 8, 4096, 192), "mixtral-tp2": Model(8, 2, 4096, 7168),
    "glm-4.5-tp8": Model(160, 8, 5120, 192), "qwen3-next": Model(512, 10, 2048, 512), "minimax-m2-tp4": Model(256, 8, 3072, 384),
    "gpt-oss-20b": Model(32, 4, 2880, 2880), "deepseek-v3-tp8": Model(256, 8, 7168, 256),
    "deepseek-v3-tp8-fp8": Model(256, 8, 7168, 256, codes=True), "qwen3-30b-fp8": Model(128, 8, 2048, 768, codes=True),
}  # fmt: skip


# ---------------------------------------------------------------- Data


def layer_of(torch, model):
    """(router, w1, w2), FP8 ones each followed by its scales. The router's rows are orthonormal, so that rows can be made for any logits."""
    def random(*shape):
        made = torch.empty(*shape, device="cuda", dtype=torch.bfloat16)
        for expert in made if len(shape) == 3 else [made]:
            expert.normal_(std=shape[-1] ** -0.5)
        return made

    router = torch.linalg.qr(torch.randn(model.hidden, model.experts, device="cuda"))[0].T.contiguous().bfloat16()
    w1, w2 = random(model.experts, 2 * model.inner, model.hidden), random(model.experts, model.hidden, model.inner)
    return (router, *in_blocks(torch, w1), *in_blocks(torch, w2)) if model.codes else (router, w1, w2)


def in_blocks(torch, matrices):
    """(codes e4m3 [experts, rows, columns], scales f32 [experts, rows / 128, columns / 128])."""
    codes = torch.empty(matrices.shape, device=matrices.device, dtype=torch.float8_e4m3fn)
    rows, columns = (extent // 128 for extent in matrices.shape[1:])
    scales = torch.empty(len(matrices), rows, columns, device=matrices.device)
    for expert, matrix in enumerate(matrices):
        blocks = matrix.float().view(rows, 128, columns, 128)
        scales[expert] = blocks.abs().amax((1, 3)) / 448
        codes[expert] = (blocks / scales[expert][:, None, :, None]).to(codes.dtype).view(matrix.shape)
    return codes, scales


def wide(torch, matrices, expert):
    """Matrix `expert` in float64, of bf16 or of (codes, scales)."""
    if len(matrices) == 1:
        return matrices[0][expert].double()
    scales = matrices[1][expert].double().repeat_interleave(128, 0).repeat_interleave(128, 1)
    return matrices[0][expert].double() * scales


def logits_of(torch, model, rows, routing, device="cuda"):
    """Logits whose largest are drawn without replacement (Gumbel's trick): each expert alike, or by Zipf's law with exponent 1, by ranks that
    are another permutation in each call."""
    noise = -torch.log(-torch.log(torch.rand(rows, model.experts, device=device).clamp(1e-7, 1 - 1e-7)))
    if routing == "uniform":
        return noise
    ranks = torch.randperm(model.experts, device=device) + 1
    return noise - ranks.float().log()


def rows_of(torch, model, router, rows, routing):
    """bf16 rows that this router gives such logits."""
    x = torch.randn(rows, model.hidden, device="cuda")
    wide = router.float()
    return (x + (logits_of(torch, model, rows, routing) - x @ wide.T) @ wide).bfloat16()


# ---------------------------------------------------------------- Contestants


def logits(torch, x, router):
    return torch.mm(x, router.T, out_dtype=torch.float32)


def by_triton(torch, experts, top, tile=None):
    import triton_experts

    def call(x, residual, router, *matrices):
        ids, weights = triton_experts.route(logits(torch, x, router), top)
        if len(matrices) == 4:
            w1, s1, w2, s2 = matrices
            return experts(x, ids, weights, w1, w2, residual, tile, (s1, s2))
        return experts(x, ids, weights, *matrices, residual, tile)

    return call


def by_torch(torch, top):
    functional = torch.nn.functional

    def call(x, residual, router, w1, w2):
        weights, ids = torch.topk(torch.softmax(logits(torch, x, router), -1), top)
        weights = weights / weights.sum(-1, keepdim=True)
        of_slot, order = torch.sort(ids.reshape(-1))
        ends = torch.searchsorted(of_slot, torch.arange(len(w1), device=x.device), right=True, out_int32=True)
        gate, up = functional.grouped_mm(x[order // top], w1.transpose(1, 2), offs=ends).chunk(2, -1)
        parts = functional.grouped_mm(functional.silu(gate) * up, w2.transpose(1, 2), offs=ends)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order), device=x.device)
        parts = (parts * weights.reshape(-1, 1)[order])[back].view(len(x), top, -1)
        return (parts.sum(1) + residual).to(x.dtype)

    return call


def by_others(torch, model):
    """({name: a function of ids, weights, x, w1 and w2}, {name: why it is absent})."""
    found, absent = {}, {}
    try:
        from vllm.model_executor.layers.fused_moe.fused_moe import fused_experts

        found["vllm"] = lambda x, ids, weights, w1, w2: fused_experts(x, w1, w2, weights, ids)
    except Exception as why:  # what an installed package raises at its import is its own
        absent["vllm"] = str(why)[:120]
    for name in ("sonicmoe", "deepgemm"):
        try:
            from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

            def call(x, ids, weights, w1, w2, own=ALL_EXPERTS_FUNCTIONS[name]):
                config = types.SimpleNamespace(hidden_act="silu")
                layer = types.SimpleNamespace(gate_up_proj=w1, down_proj=w2, num_experts=model.experts, config=config, has_gate=True,
                    has_bias=False, is_transposed=False, is_concatenated=True, has_post_expert_norm=False, _is_expert_parallel=False,
                    _apply_gate=lambda both: torch.nn.functional.silu(both.chunk(2, -1)[0]) * both.chunk(2, -1)[1],
                    act_fn=torch.nn.functional.silu, training=False)  # fmt: skip
                return own(layer, x, ids.long(), weights.to(x.dtype))

            x = torch.zeros(4, 64, device="cuda", dtype=torch.bfloat16)
            ids, weights = torch.zeros(4, 1, device="cuda", dtype=torch.int32), torch.ones(4, 1, device="cuda")
            call(x, ids, weights, x.new_zeros(model.experts, 128, 64), x.new_zeros(model.experts, 64, 64))
            found[name] = call
        except Exception as why:
            absent[name] = str(why)[:120]
    return found, absent


def behind_router(torch, call, top):
    import triton_experts

    def whole(x, residual, router, w1, w2):
        ids, weights = triton_experts.route(logits(torch, x, router), top)
        return call(x, ids, weights, w1, w2) + residual

    return whole


# ---------------------------------------------------------------- Measuring


def exact(torch, model, x, residual, router, *matrices_and_rows):
    """float64 results of some rows, the last argument. Nothing but the matrices is rounded."""
    *matrices, rows = matrices_and_rows
    first, second = matrices[: len(matrices) // 2], matrices[len(matrices) // 2 :]
    likely = torch.softmax(x[rows].double() @ router.double().T, -1)
    weights, ids = torch.topk(likely, model.top)
    weights = weights / weights.sum(-1, keepdim=True)
    found = []
    for i, row in enumerate(rows):
        total = residual[row].double()
        for weight, expert in zip(weights[i], ids[i].tolist()):
            gate, up = (wide(torch, first, expert) @ x[row].double()).chunk(2)
            total = total + weight * (wide(torch, second, expert) @ (torch.nn.functional.silu(gate) * up))
        found.append(total)
    return torch.stack(found)


def distance(found, wanted):
    return float(f"{((found.double() - wanted.double()).norm() / wanted.double().norm()).item():.1e}")


def quick_us(torch, calls):
    """Microseconds a call of a graph, to choose a tile by."""
    graph, _ = turns.capture(torch, torch.cuda.Stream(), calls)
    return turns.replayed(torch, {"": (graph, len(calls))}, rounds=3)[""]["us"]


def kernels_of(torch, calls):
    """[kernel, microseconds from the end of the one before to its own] in the order of a graph's calls, means over all but the first."""
    graph, kept = turns.capture(torch, torch.cuda.Stream(), calls)
    graph.replay()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graph.replay()
        torch.cuda.synchronize()
    ran = sorted((one.time_range.start, one.time_range.end, one.name) for one in profile.events()
                 if one.device_type == torch.autograd.DeviceType.CUDA)
    del graph, kept
    each = len(ran) // len(calls)
    lines = [[name[:60], 0.0] for _, _, name in ran[:each]]
    for i in range(each, each * len(calls)):
        lines[i % each][1] += (ran[i][1] - ran[i - 1][1]) / (len(calls) - 1)
    return [[name, round(us, 2)] for name, us in lines]


class Bench:
    """One model's layers, and their measurements. `kernels`: also of each kernel."""

    def __init__(self, torch, name, contestants, plans, kernels=False):
        self.torch, self.name, self.model, self.contestants, self.plans = torch, name, MODELS[name], contestants, plans
        self.kernels = kernels
        self.layers = [layer_of(torch, self.model) for _ in range(LAYERS)]
        self.others, self.absent = ({}, {"torch, others": "bf16 alone"}) if self.model.codes else by_others(torch, self.model)
        self.chosen, self.compiled = {}, {}  # Triton's tiles and torch's function by rows

    def sets(self, rows, routing):
        """What each call of a graph is given."""
        count = CALLS if rows <= 256 else LAYERS
        made = []
        for i in range(count):
            layer = self.layers[i % LAYERS]
            made.append((rows_of(self.torch, self.model, layer[0], rows, routing), self.torch.randn(
                rows, self.model.hidden, device="cuda", dtype=self.torch.bfloat16) / 8, *layer))
        return [made[i % count] for i in range(CALLS)]

    def triton(self, rows, sets):
        import triton_experts

        torch, top = self.torch, self.model.top
        if rows not in self.chosen:
            self.chosen[rows] = triton_experts.Experts(rows, self.model.codes).choose(lambda tile: quick_us(
                torch, [lambda s=s: by_triton(torch, triton_experts.Experts(rows, self.model.codes), top, tile)(*s) for s in sets[:8]]))
        return by_triton(torch, self.chosen[rows], top)

    def by_compile(self, rows):
        if rows not in self.compiled:
            self.compiled = {rows: turns.compiled(self.torch, by_torch(self.torch, self.model.top), "compile")}
        return self.compiled[rows]

    def calls(self, rows, sets):
        """{contestant: a function of a set}."""
        torch, top, plan = self.torch, self.model.top, self.plans[rows]
        makers = {
            "sinter": lambda: lambda *given: plan(*given),
            "triton": lambda: self.triton(rows, sets),
            **({} if self.model.codes else {"torch": lambda: self.by_compile(rows)}),
            **{name: lambda call=call: behind_router(torch, call, top) for name, call in self.others.items()},
        }
        return {name: make() for name, make in makers.items() if name in self.contestants}

    def measure(self, rows, routing):
        """A row of the results."""
        torch, model = self.torch, self.model
        torch.cuda.empty_cache()
        sets = self.sets(rows, routing)
        calls = self.calls(rows, sets)
        ids = [torch.topk(logits(torch, x, router), model.top)[1] for x, _, router, *_ in sets]
        touched = sum(len(torch.unique(of)) for of in ids) / len(ids)
        some = sorted({0, rows // 3, rows // 2, rows - 1})
        wanted = exact(torch, model, *sets[0], some)
        results, without = {}, {}
        for name, call in list(calls.items()):
            try:
                results[name] = call(*sets[0])
            except Exception as why:  # a peer that does not take the case is left out
                if name == "sinter":
                    raise
                without[name] = f"{type(why).__name__}: {why}".splitlines()[0][:200]
                print("  without", name, without[name], flush=True)
                del calls[name]
        errors = {name: distance(found[some], wanted) for name, found in results.items()}
        first = results.pop("sinter")
        apart = {name: distance(found, first) for name, found in results.items()}  # all rows
        plan = self.plans[rows]
        row = {"model": self.name, "rows": rows, "routing": routing, "touched": round(touched, 1),
               "limit_us": round(model.limit_us(rows, touched, torch.cuda.get_device_name()), 2), "kernels": plan.kernel_count,
               "predicted_us": round(plan.predicted_us, 2), "errors": errors, "apart": apart,
               "correct": max(errors["sinter"], *apart.values(), 0) <= model.relative, "without": without}  # fmt: skip
        del results, first
        if not row["correct"]:
            return row
        row["us"] = turns.in_turns(torch, {name: [lambda c=call, s=s: c(*s) for s in sets] for name, call in calls.items()})
        if self.kernels:
            row["kernels_us"] = {name: kernels_of(torch, [lambda c=call, s=s: c(*s) for s in sets]) for name, call in calls.items()}
        row["tile"] = list(self.chosen[rows].tile) if rows in self.chosen else None
        without.update({name: "no graph holds it" for name in calls if name not in row["us"]})
        peers = {name: us for name, us in row["us"].items() if name != "sinter"}
        row["over_limit"] = round(row["us"]["sinter"] / row["limit_us"], 3)
        if peers:
            row["best_peer"] = min(peers, key=peers.get)
            row["ratio"] = round(peers[row["best_peer"]] / row["us"]["sinter"], 3)
        return row


def summary(rows):
    """Lines: of each routing and number of rows the geometric mean and the least of best peer / Sinter, and Sinter's time over the limit."""
    lines = []
    for routing in ROUTINGS:
        for count in ROWS:
            found = [row for row in rows if row["routing"] == routing and row["rows"] == count and "ratio" in row]
            if found:
                mean, over = (math.exp(sum(math.log(row[key]) for row in found) / len(found)) for key in ("ratio", "over_limit"))
                least = min(found, key=lambda row: row["ratio"])
                lines.append(f"{routing}, {count} rows: {len(found)} models, best peer / Sinter {mean:.3f}, least {least['ratio']:.3f} "
                             f"({least['model']}), Sinter / limit {over:.3f}")
    return "\n".join(lines)


def held_rows(path, machine):
    """The rows of a file that the same library measured on the same kind of GPU."""
    if not path.exists():
        return []
    before = json.loads(path.read_text(encoding="utf-8"))
    return before["rows"] if all(before[key] == machine[key] for key in ("gpu", "commit", "dirty")) else []


def compile_triton(cases):
    """The products of all {model: (rows, routing)}, each once."""
    import triton_experts

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for name, wanted in cases.items():
            model = MODELS[name]
            for rows in sorted({rows for rows, _ in wanted}):
                triton_experts.compile_all(threads, rows, model.codes, model.experts, model.top, model.hidden, model.inner)


def awaited(pending):
    """({model: {rows: plan}}, {model: why it has none}) of {model: {rows: a future}}."""
    plans, failed = {}, {}
    for name, of_rows in pending.items():
        try:
            plans[name] = {rows: plan.result() for rows, plan in of_rows.items()}
        except Exception as why:  # the other models are measured
            failed[name] = f"{type(why).__name__}: {why}"[:300]
            print(f"{name}: no plan: {failed[name]}", flush=True)
    return plans, failed


def asked(options):
    """{model: [(rows, routing)]} of the command line."""
    if not options.cases:
        of = [(int(rows), routing) for rows in options.rows.split(",") for routing in options.routings.split(",")]
        return {name: of for name in options.models.split(",")}
    found = {}
    for case in options.cases.split(","):
        name, _, rest = case.partition("@")
        rows, _, routing = rest.partition(":")
        found.setdefault(name, []).append((int(rows), routing))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--cases", default="", help="MODEL@ROWS:ROUTING with commas between, instead of models, rows and routings")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rows", default=",".join(map(str, ROWS)))
    parser.add_argument("--routings", default=",".join(ROUTINGS))
    parser.add_argument("--contestants", default="sinter,triton,torch,vllm,sonicmoe,deepgemm")
    parser.add_argument("--seconds", type=float, default=560, help="no measurement begins later")
    parser.add_argument("--kernels", action="store_true", help="also the time that each kernel adds, by the profiler")
    options = parser.parse_args()
    until = time.monotonic() + options.seconds
    import sinter
    import torch

    torch.manual_seed(0)
    result = {**turns.machine(torch), "absent": {}, "rows": held_rows(options.out, turns.machine(torch))}
    held = {(row["model"], row["rows"], row["routing"]) for row in result["rows"]}
    context, left = sinter.Context(), 0
    names = options.contestants.split(",")
    cases = {name: [case for case in of if (name, *case) not in held] for name, of in asked(options).items()}
    # Planning and compiling take longer than measuring: all is begun at once, and done before anything is timed.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pending = {}
        for name, wanted in cases.items():
            chain = MODELS[name].chain(sinter)
            pending[name] = {rows: pool.submit(context.prepare, chain, m=rows) for rows in sorted({rows for rows, _ in wanted})}
    plans, result["failed"] = awaited(pending)
    for name, why in result["failed"].items():
        result["rows"] += [{"model": name, "rows": rows, "routing": routing, "correct": False, "refused": why} for rows, routing in cases[name]]
        rows_file.write(str(options.out), result)
    cases = {name: cases[name] for name in plans}
    if "triton" in names:
        compile_triton(cases)
    print(f"prepared within {options.seconds - until + time.monotonic():.0f} s", flush=True)
    for name, wanted in cases.items():
        if not wanted or time.monotonic() > until:
            left += len(wanted)
            continue
        with torch.no_grad():
            bench = Bench(torch, name, ["sinter", *names], plans[name], options.kernels)
            result["absent"] = bench.absent
            for rows, routing in wanted:
                if time.monotonic() > until:
                    left += 1
                    continue
                row = bench.measure(rows, routing)
                print(json.dumps(row), flush=True)
                result["rows"].append(row)
                rows_file.write(str(options.out), result)
        del bench
        torch.cuda.empty_cache()
    print(summary(result["rows"]))
    print("absent:", result["absent"])
    if result["failed"]:
        print(f"without a plan: {', '.join(result['failed'])}")
    if left:
        print(f"{left} left; run the command again")
    sys.exit(0 if all(row["correct"] for row in result["rows"]) and not result["failed"] else 1)


if __name__ == "__main__":
    main()
