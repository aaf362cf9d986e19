#!/usr/bin/env python3
"""Chains over two GPUs of one host: right on both ranks, and their times compared with torch's.

    PYTHONPATH=bindings/python LIBSINTER_PATH=... python3 tests/bench/ranks/ranks.py OUT.json [--rows 1,16,..] [--seconds N]

Parts, each of two processes but the second: `right`: sums bit by bit, and a product with its sum, residual and norm
against float64; `local`: the same by one process with two contexts; `refused`: a rank with another plan, and one that
never launches; `times`: microseconds of a call in CUDA graphs of 50; `models`: the same of what lies between two
attentions of a model split over two GPUs, with products of bf16 and of e4m3. Exits 1 where a part fails. Needs two
GPUs that reach each other, torch 2.5 or newer, NVRTC.
"""

import argparse
import datetime
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import rows_file  # noqa: E402
import source_state  # noqa: E402

COLUMNS, FACTORS = 8192, 4096
CALLS, REPLAYS = 50, 15
# By rank of two: columns of the hidden state, of attention's result, of the gate.
MODELS = {"Llama-3-70B": (8192, 4096, 14336), "Qwen3-32B": (5120, 4096, 12800)}


def draw(rank, shape, scale=1.0):
    """The same on every machine."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(1000 + rank)) * scale
    return made.to(torch.bfloat16)


def layer(rows, columns, factors, size):
    return f"row_parallel m={rows} n={columns} k={factors} ranks={size}"


def inputs_of(rank, rows, columns, factors):
    """a, w1, r, gamma of a rank; r and gamma are the same on all ranks."""
    return [
        draw(10 + rank, (rows, factors)),
        draw(20 + rank, (columns, factors), factors**-0.5),
        draw(30, (rows, columns)),
        draw(31, (columns,)),
    ]


def expected(size, rows, columns, factors):
    """h and its norm, of all ranks: what the chain says, in float64 between its casts."""
    total = torch.zeros(rows, columns)
    for rank in range(size):
        a, w, r, gamma = inputs_of(rank, rows, columns, factors)
        part = (a.double() @ w.double().T).to(torch.bfloat16)
        total = part.float() if rank == 0 else total + part.float()
    h = (total.to(torch.bfloat16).double() + r.double()).to(torch.bfloat16)
    x = h.double()
    norm = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * gamma.double()
    return h, norm.to(torch.bfloat16)


def between_attentions(hidden, width, gated, size, kind="bf16"):
    """Attention's output product, a gated FFN, and after each the sum over ranks, the residual and a norm.

    `kind` e4m3: products of codes, with a scale of each row of the left operand and of each channel; what is quantised
    is bf16 before, as servers have it.
    """
    import sinter

    b = sinter.Builder()
    a = b.input("bf16", (sinter.M, width))
    r = b.input("bf16", (sinter.M, hidden))

    def weight(rows, columns):
        made = b.constant(kind, (rows, columns))
        return made if kind == "bf16" else sinter.Scaled(made, b.constant("f32", (rows, 1)))

    def operand(x):
        return x if kind == "bf16" else sinter.quantize(x.cast("f32"))

    def product(x, w):
        return x @ w.T if kind == "bf16" else sinter.scaled_matmul(x, w)

    w_o, w_down, w_gate, w_up = (weight(*shape) for shape in shapes_between(hidden, width, gated))
    gammas = [b.constant("bf16", (hidden,)) for _ in range(2)]

    def summed(part, residual):
        total = sinter.all_reduce(part.cast("bf16"), size).cast("f32")
        return (total + residual.cast("f32")).cast("bf16")

    h = summed(product(operand(a), w_o), r)
    x = operand(sinter.rmsnorm(h, gammas[0]).cast("bf16"))
    c = operand((sinter.silu(product(x, w_gate)) * product(x, w_up)).cast("bf16"))
    h = summed(product(c, w_down), h)
    return b.finish(h, sinter.rmsnorm(h, gammas[1]).cast("bf16"))


def shapes_between(hidden, width, gated):
    """The shapes of w_o, w_down, w_gate, w_up."""
    return (hidden, width), (hidden, gated), (gated, hidden), (gated, hidden)


def quantized(x):
    """Codes of rows and their scales [rows, 1]."""
    wide = x.float()
    scale = wide.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448.0
    return (wide / scale).to(torch.float8_e4m3fn), scale


def weights_between(rank, hidden, width, gated, device, kind="bf16"):
    """w_o, w_down, w_gate, w_up of a rank, each with its scales if of codes, and both gammas of all."""
    generator = torch.Generator(device).manual_seed(100 + rank)
    made = []
    for rows, columns in shapes_between(hidden, width, gated):
        drawn = torch.randn((rows, columns), generator=generator, device=device) * columns**-0.5
        made += [drawn.to(torch.bfloat16)] if kind == "bf16" else quantized(drawn)
    return made + [draw(31 + i, (hidden,)).to(device) for i in range(2)]


def error_of(got, want):
    got, want = got.double().cpu(), want.double()
    return float((got - want).norm() / want.norm())


class Side:
    """One rank: its context, its group, what it has bound."""

    def __init__(self, context, group, device):
        self.context, self.group, self.device = context, group, device

    def sum(self, rows, residual=1):
        columns = COLUMNS
        plan = self.context.prepare(
            f"all_reduce rows={rows} cols={columns} ranks={self.group.size} residual={residual}", m=rows
        )
        given = [draw(self.group.rank, (rows, columns))] + [draw(50 + self.group.rank, (rows, columns))] * residual
        return plan.bind(*[one.to(self.device) for one in given], group=self.group)

    def layer(self, rows, columns=COLUMNS, factors=FACTORS, choice="best"):
        plan = self.context.prepare(layer(rows, columns, factors, self.group.size), m=rows, choice=choice)
        given = inputs_of(self.group.rank, rows, columns, factors)
        return plan.bind(*[one.to(self.device) for one in given], group=self.group)


def check_sum(side, bound, rows):
    """How many elements are not those that the chain says, bit by bit."""
    parts = [draw(rank, (rows, COLUMNS)).float() for rank in range(side.group.size)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    want = (total.to(torch.bfloat16).float() + draw(50 + side.group.rank, (rows, COLUMNS)).float()).to(torch.bfloat16)
    got = bound.outputs[0].cpu()
    return int((got.view(torch.int16) != want.view(torch.int16)).sum())


def right(side, barrier):
    report = {}
    for rows in (1, 7, 64, 300, 1024):
        bound = side.sum(rows)
        barrier()
        for _ in range(3):
            bound()
        torch.cuda.synchronize(side.device)
        report[f"sum {rows}"] = check_sum(side, bound, rows)
    for rows, columns, factors in ((1, 1024, 512), (33, 1024, 512), (128, 2048, 1024)):
        bound = side.layer(rows, columns, factors)
        barrier()
        bound()
        torch.cuda.synchronize(side.device)
        h, norm = expected(side.group.size, rows, columns, factors)
        report[f"layer {rows}"] = [error_of(bound.outputs[0], h), error_of(bound.outputs[1], norm)]
    report["ended"] = str(side.group.error)
    good = all(
        value == 0 if isinstance(value, int) else value == "None" if isinstance(value, str) else max(value) < 1e-2
        for value in report.values()
    )
    return good, report


def refused(side, barrier):
    """A rank with another plan gets an error at the bind; one that never launches at the timeout, and it is named."""
    import sinter

    report = {}
    try:
        side.sum(5, residual=side.group.rank)
        report["other plan"] = "bound"
    except sinter.Error as error:
        report["other plan"] = error.message
    barrier()
    bound = side.sum(5)
    barrier()
    began = time.monotonic()
    if side.group.rank == 0:
        bound()
        torch.cuda.synchronize(side.device)
        report["seconds"] = round(time.monotonic() - began, 2)
        report["missed"] = side.group.missed
        try:
            bound()
            report["launch"] = "launched"
        except sinter.Error as error:
            report["launch"] = error.message
    barrier()
    good = "binds plan" in report["other plan"]
    if side.group.rank == 0:
        good = good and report["missed"] == 1 and report["seconds"] < 6 and "sent nothing" in report["launch"]
    return good, report


def graph_of(call, device, calls):
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(calls):
            call()
    return graph


def time_of(call, device, barrier, calls=CALLS):
    """Microseconds of a call, the median of replays of a graph of them that begin together on both GPUs."""
    graph = graph_of(call, device, calls)
    times, together = [], torch.zeros(1, device=device)
    for _ in range(REPLAYS):
        barrier()
        dist.all_reduce(together)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / calls)
    return round(sorted(times)[len(times) // 2], 2)


def failing(error):
    """A way that this torch has not, as a call: the results say why."""
    def call():
        raise error

    return call


def contestants(side, rows, process_group):
    """Name and call of each way to do the sum, and the whole layer, on this rank's data."""
    torch._dynamo.reset()  # as below
    device = side.device
    a, w, r, gamma = [one.to(device) for one in inputs_of(side.group.rank, rows, COLUMNS, FACTORS)]
    bound_sum, bound_layer = side.sum(rows), side.layer(rows)
    x = draw(side.group.rank, (rows, COLUMNS)).to(device)

    @torch.compile(dynamic=False)
    def norm_behind(total):
        h = total + r
        wide = h.float()
        return h, (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6) * gamma.float()).to(torch.bfloat16)

    def nccl_layer():
        total = torch.nn.functional.linear(a, w)
        dist.all_reduce(total, group=process_group)
        return norm_behind(total)

    ways = {
        "sum + residual, sinter": bound_sum,
        "sum + residual, nccl": lambda: (dist.all_reduce(x, group=process_group), x + r),
        "layer, sinter": bound_layer,
        "layer, sinter, the sum sends": side.layer(rows, choice="unfused"),
        "layer, nccl": nccl_layer,
    }
    try:
        import torch.distributed._symmetric_memory as symmetric

        kept = symmetric.empty(rows, COLUMNS, dtype=torch.bfloat16, device=device)
        symmetric.rendezvous(kept, process_group)
        kept.copy_(x)
    except Exception as error:  # the same on both ranks: of one torch
        for text in ("one-shot", "two-shot"):
            ways.update({f"{what}, symm {text}": failing(error) for what in ("sum + residual", "layer")})
        return ways
    name = process_group.group_name

    def symmetric_layer(op):
        torch.mm(a, w.T, out=kept)
        return norm_behind(op(kept, "sum", name))

    for text, op in (
        ("one-shot", torch.ops.symm_mem.one_shot_all_reduce),
        ("two-shot", torch.ops.symm_mem.two_shot_all_reduce_),
    ):
        ways[f"sum + residual, symm {text}"] = lambda op=op: op(kept, "sum", name) + r
        ways[f"layer, symm {text}"] = lambda op=op: symmetric_layer(op)
    return ways


def any_late(until, process_group):
    """Whether the time of any rank is up: they stop together."""
    told = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(told, time.monotonic() > until, group=process_group)
    return any(told)


def times(side, barrier, rows_list, until, process_group):
    report = {}
    for rows in rows_list:
        if any_late(until, process_group):
            report["stopped"] = rows
            break
        row = report[str(rows)] = {}
        for name, call in contestants(side, rows, process_group).items():
            try:
                row[name] = time_of(call, side.device, barrier)
            except Exception as error:  # a way that this torch lacks is reported, the others go on
                row[name] = f"{type(error).__name__}: {error}"[:200]
            if side.group.rank == 0:
                print(rows, name, row[name], flush=True)
    failed = [(rows, name) for rows, row in report.items() if rows != "stopped" for name, us in row.items() if "sinter" in name and isinstance(us, str)]
    return side.group.error is None and not failed, report


def ways_between(side, model, kind, rows, process_group):
    """The plan of the ops between two attentions, and name and call of each way to do it on this rank's data."""
    torch._dynamo.reset()  # it counts by code, so new closures for a ninth case would run without being compiled
    hidden, width, gated = model
    rank, device = side.group.rank, side.device
    weights = weights_between(rank, hidden, width, gated, device, kind)
    gamma, last_gamma = weights[-2:]
    a, r = draw(10 + rank, (rows, width)).to(device), draw(30, (rows, hidden)).to(device)
    plan = side.context.prepare(between_attentions(hidden, width, gated, side.group.size, kind), m=rows)
    bound = plan.bind(a, r, *weights, group=side.group)

    # For torch a weight is a matrix, or FP8 values with their scales; gate and up are one.
    if kind == "bf16":
        w_o, w_down, w_gate, w_up = weights[:4]
        w_both = torch.cat([w_gate, w_up])
        codes_of = lambda x: x
    else:
        pairs = [(weights[i], weights[i + 1]) for i in range(0, 8, 2)]
        w_o, w_down = pairs[:2]
        w_both = tuple(torch.cat([one, other]) for one, other in zip(*pairs[2:]))
        codes_of = quantized

    def product(x, w, out=None):
        if kind == "bf16":
            return torch.mm(x, w.T, out=out) if out is not None else torch.nn.functional.linear(x, w)
        more = {} if out is None else {"out": out}
        return torch._scaled_mm(x[0], w[0].T, scale_a=x[1], scale_b=w[1].T, out_dtype=torch.bfloat16, use_fast_accum=True, **more)

    def norm(h, factor):
        wide = h.float()
        return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6) * factor.float()).to(torch.bfloat16)

    @torch.compile(dynamic=False)
    def first(x):
        return codes_of(x)

    @torch.compile(dynamic=False)
    def norm_behind(total, residual, factor):
        h = total + residual
        return h, codes_of(norm(h, factor))

    @torch.compile(dynamic=False)
    def last_behind(total, residual, factor):
        h = total + residual
        return h, norm(h, factor)

    @torch.compile(dynamic=False)
    def gate(both):
        return codes_of(torch.nn.functional.silu(both[:, :gated]) * both[:, gated:])

    def layer_by(summed):
        h, x = norm_behind(summed(a if kind == "bf16" else first(a), w_o), r, gamma)
        return last_behind(summed(gate(product(x, w_both)), w_down), h, last_gamma)

    def by_nccl(x, w):
        total = product(x, w)
        dist.all_reduce(total, group=process_group)
        return total

    ways = {"sinter": bound, "nccl": lambda: layer_by(by_nccl)}
    try:
        import torch.distributed._symmetric_memory as symmetric

        kept = symmetric.empty(rows, hidden, dtype=torch.bfloat16, device=device)
        symmetric.rendezvous(kept, process_group)

        def by_symmetric(x, w, op):
            product(x, w, out=kept)
            return op(kept, "sum", process_group.group_name)

        for text, op in (
            ("symm one-shot", torch.ops.symm_mem.one_shot_all_reduce),
            ("symm two-shot", torch.ops.symm_mem.two_shot_all_reduce_),
        ):
            ways[text] = lambda op=op: layer_by(lambda x, w: by_symmetric(x, w, op))
    except Exception as error:  # the same on both ranks: of one torch
        ways.update({text: failing(error) for text in ("symm one-shot", "symm two-shot")})
    return plan, ways


def models(side, barrier, options, until, process_group):
    """For each model by rows: microseconds of each way, and how far the plan's results are from torch's by NCCL."""
    report, good = {}, True
    for kind in options.kinds:
        for rows in options.model_rows:
            for name, model in MODELS.items():
                if any_late(until, process_group):
                    report["stopped"] = f"{name} {kind} {rows}"
                    return good, report
                row = report[f"{name} {rows}" if kind == "bf16" else f"{name} {kind} {rows}"] = {}
                good = model_row(row, side, barrier, model, kind, rows, options.ways, process_group) and good
                if side.group.rank == 0:
                    print(name, kind, rows, json.dumps(row), flush=True)
    return good and side.group.error is None, report


def model_row(row, side, barrier, model, kind, rows, timed, process_group):
    plan, ways = ways_between(side, model, kind, rows, process_group)
    row["kernels"] = plan.kernel_count
    barrier()
    ways["sinter"]()
    torch.cuda.synchronize(side.device)
    got = [one.clone() for one in ways["sinter"].outputs]
    row["errors"] = [error_of(one, other.cpu()) for one, other in zip(got, ways["nccl"]())]
    # Codes of three bits that one side rounds the other way are 6 % off each.
    good = row["right"] = max(row["errors"]) < (2e-2 if kind == "bf16" else 4e-2)
    for way, call in ways.items():
        if timed and way not in timed:
            continue
        try:
            row[way] = time_of(call, side.device, barrier, calls=max(4, min(CALLS, 4096 // rows)))
        except Exception as error:  # a way that this torch lacks is reported, the others go on
            row[way] = f"{type(error).__name__}: {error}"[:200]
            good = good and way != "sinter"
    return good


def process(rank, size, port, options, results):
    import sinter

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60), device_id=device
    )
    barrier = lambda: dist.all_gather_object([None] * size, 0)
    context = sinter.Context(device=rank, cache_dir="")
    until = time.monotonic() + options.seconds
    report = {"gpu": torch.cuda.get_device_name(rank), "torch": torch.__version__}
    failed = []
    side = Side(context, sinter.Group.from_torch(context, slot_bytes=options.slot_mib << 20, timeout=60.0), device)
    report["slot MiB"] = options.slot_mib or "default"
    parts = [("right", lambda: right(side, barrier))]
    if "times" in options.parts:
        parts.append(("times", lambda: times(side, barrier, options.rows, until, dist.group.WORLD)))
    if "models" in options.parts:
        parts.append(("models", lambda: models(side, barrier, options, until, dist.group.WORLD)))
    for name, part in parts:
        good, report[name] = part()
        print(f"rank {rank} {name}: {'right' if good else 'WRONG'} {json.dumps(report[name])}", flush=True)
        failed += [] if good else [name]
    torch.cuda.synchronize(device)
    side.group.close()
    if "refused" in options.parts:
        short = Side(context, sinter.Group.from_torch(context, timeout=2.0), device)
        good, report["refused"] = refused(short, barrier)
        print(f"rank {rank} refused: {'right' if good else 'WRONG'} {json.dumps(report['refused'])}", flush=True)
        failed += [] if good else ["refused"]
    report["failed"] = failed
    results[rank] = report
    dist.destroy_process_group()


def local(size):
    """One process with a context a GPU. All plans are bound before the first launch."""
    import sinter

    contexts = [sinter.Context(device=rank, cache_dir="") for rank in range(size)]
    sides = [
        Side(context, group, torch.device("cuda", rank))
        for rank, (context, group) in enumerate(zip(contexts, sinter.Group.local(contexts)))
    ]
    report, rows = {}, 64
    sums = [side.sum(rows) for side in sides]
    layers = [side.layer(rows, 1024, 512) for side in sides]
    for bounds in (sums, layers):
        for side, bound in zip(sides, bounds):
            with torch.cuda.device(side.device):
                bound()
        for side in sides:
            torch.cuda.synchronize(side.device)
    h, norm = expected(size, rows, 1024, 512)
    for side, total, whole in zip(sides, sums, layers):
        report[side.group.rank] = [
            check_sum(side, total, rows),
            error_of(whole.outputs[0], h),
            error_of(whole.outputs[1], norm),
            str(side.group.error),
        ]
    good = all(one[0] == 0 and max(one[1:3]) < 1e-2 and one[3] == "None" for one in report.values())
    print(f"local: {'right' if good else 'WRONG'} {json.dumps(report)}", flush=True)
    return good, report


def run_local(size, results):
    good, report = local(size)
    results["local"] = {"failed": [] if good else ["local"], "local": report}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--rows", type=lambda text: [int(one) for one in text.split(",")], default=[1, 16, 64, 128, 256, 1024])
    parser.add_argument("--model-rows", type=lambda text: [int(one) for one in text.split(",")], default=[1, 16, 128, 1024, 4096])
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=["bf16", "e4m3"], help="of models' products")
    parser.add_argument("--ways", type=lambda text: text.split(","), default=[], help="that are timed of models: sinter, nccl, ..; all")
    parser.add_argument("--slot-mib", type=int, default=0, help="of the group's slots; 0: the library's choice")
    parser.add_argument("--seconds", type=float, default=120, help="after which no further number of rows is timed")
    parser.add_argument("--parts", default="right,local,refused,times,models")
    options = parser.parse_args()
    if torch.cuda.device_count() < 2:
        sys.exit("ranks: needs two GPUs")
    spawn = mp.get_context("spawn")
    with spawn.Manager() as manager:
        results = manager.dict()
        failed = []
        if "local" in options.parts:
            alone = spawn.Process(target=run_local, args=(2, results))
            alone.start()
            alone.join(90)
            if alone.is_alive():
                alone.kill()
                failed.append("local: not ended after 90 s")
            elif alone.exitcode != 0 or "local" not in results:
                failed.append(f"local: ended with {alone.exitcode}, and told {'something' if 'local' in results else 'nothing'}")
        port = 20000 + os.getpid() % 20000
        ranks = [spawn.Process(target=process, args=(rank, 2, port, options, results)) for rank in range(2)]
        for one in ranks:
            one.start()
        for one in ranks:
            one.join(options.seconds + 120)
            if one.is_alive():
                one.kill()
                failed.append("a rank did not end")
        report = dict(results)
        for rank in range(2):
            if rank not in report:
                failed.append(f"rank {rank} told nothing")
        for one in report.values():
            failed += one["failed"]
    ranks_told = [{"rank": rank, **report[rank]} for rank in range(2) if rank in report]
    document = {**source_state.of_library(), "local": report.get("local"), "ranks": ranks_told}
    rows_file.write(options.out, document)
    print("failed: " + ", ".join(failed) if failed else "all right", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
