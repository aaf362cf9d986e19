"""The parts that measure: `times` of sums and of a layer, `models` of the ops between two attentions. Each returns whether it is right, and a report.

`saved` is called after each row, so that a program which is ended leaves what it has measured.
"""

import json
import time

import torch
import torch.distributed as dist
from rank_chains import COLUMNS, FACTORS, between_attentions, draw, error_of, inputs_of, quantized, weights_between
from rank_peers import AsyncProducts, async_way, gathered, rows_of, sums
from shares import ASYNC, ASYNC_FROM, MODELS, share

CALLS, REPLAYS = 50, 15
NORM_RANKS = 4  # over which the kernel of a sum also makes the norm


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
    """Microseconds of a call, the median of replays of a graph of them that begin together on all GPUs."""
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


def timed(call, device, barrier, calls=CALLS):
    """The time of a call, or why it has none: a way that this torch lacks is reported, the others go on."""
    try:
        return time_of(call, device, barrier, calls)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]


def contestants(side, rows, process_group):
    """Name and call of each way to do the sum, and the whole layer, on this rank's data."""
    torch._dynamo.reset()  # as below
    device, rank, size = side.device, side.group.rank, side.group.size
    a, w, r, gamma = [one.to(device) for one in inputs_of(rank, rows, COLUMNS, FACTORS)]
    bound_sum, bound_layer = side.sum(rows), side.layer(rows)
    x = draw(rank, (rows, COLUMNS)).to(device)

    @torch.compile(dynamic=False)
    def norm_behind(total, residual):
        h = total + residual
        wide = h.float()
        return h, (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6) * gamma.float()).to(torch.bfloat16)

    def product(out):
        return torch.mm(a, w.T, out=out) if out is not None else torch.nn.functional.linear(a, w)

    ways = {
        "sum + residual, sinter": bound_sum,
        "layer, sinter": bound_layer,
    }
    if size <= NORM_RANKS:  # of more ranks the plan without fusion has kernels of the norm too
        ways["layer, sinter, the sum sends"] = side.layer(rows, choice="unfused")
    of_torch, kept = sums(rows, COLUMNS, device, process_group)
    if kept is not None:
        kept.copy_(x)
    for name, summed in of_torch.items():
        ways[f"sum + residual, {name}"] = lambda summed=summed: summed(lambda out: x if out is None else out) + r
        ways[f"layer, {name}"] = lambda summed=summed: norm_behind(summed(product), r)
    if rows >= ASYNC_FROM:  # h stays split over ranks, as sequence parallelism has it
        def asynchronous():
            of, own = AsyncProducts("bf16", process_group), rows_of(r, rank, size)
            return lambda: gathered(norm_behind(of.scatter(a, w), own)[1], size, process_group)

        ways.update({f"layer, {name}": call for name, call in async_way(rows, size, asynchronous).items()})
    return ways


def any_late(until, process_group):
    """Whether the time of any rank is up: they stop together."""
    told = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(told, time.monotonic() > until, group=process_group)
    return any(told)


def times(side, barrier, rows_list, until, process_group, saved=lambda report: None):
    report = {}
    for rows in rows_list:
        if any_late(until, process_group):
            report["stopped"] = rows
            break
        row = report[str(rows)] = {}
        for name, call in contestants(side, rows, process_group).items():
            row[name] = timed(call, side.device, barrier)
            if side.group.rank == 0:
                print(rows, name, row[name], flush=True)
        saved(report)
    untimed = [name for rows, row in report.items() if rows != "stopped" for name, us in row.items() if "sinter" in name and isinstance(us, str)]
    return side.group.error is None and not untimed, report


def ways_between(side, model, kind, rows, process_group):
    """The plan of the ops between two attentions, and name and call of each way to do it on this rank's data."""
    torch._dynamo.reset()  # it counts by code, so new closures for a ninth case would run without being compiled
    hidden, width, gated = model
    rank, size, device = side.group.rank, side.group.size, side.device
    weights = weights_between(rank, hidden, width, gated, device, kind)
    gamma, last_gamma = weights[-2:]
    a, r = draw(10 + rank, (rows, width)).to(device), draw(30, (rows, hidden)).to(device)
    plan = side.context.prepare(between_attentions(hidden, width, gated, size, kind), m=rows)
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

    def operand():
        return a if kind == "bf16" else first(a)

    def layer_by(summed):
        own = operand()
        h, x = norm_behind(summed(lambda out: product(own, w_o, out)), r, gamma)
        c = gate(product(x, w_both))
        return last_behind(summed(lambda out: product(c, w_down, out)), h, last_gamma)

    def asynchronous():
        """h stays split over ranks, as sequence parallelism has it; the last norm is gathered."""
        of, residual = AsyncProducts(kind, process_group), rows_of(r, rank, size)

        def layer():
            h, x = norm_behind(of.scatter(operand(), w_o), residual, gamma)
            total = of.scatter(gate(of.gather(x, w_both)), w_down)
            return gathered(last_behind(total, h, last_gamma)[1], size, process_group)

        return layer

    ways = {"sinter": bound}
    for name, summed in sums(rows, hidden, device, process_group)[0].items():
        ways[name] = lambda summed=summed: layer_by(summed)
    if rows >= ASYNC_FROM:
        ways.update(async_way(rows, size, asynchronous))
    return plan, ways


def models(side, barrier, options, until, process_group, saved=lambda report: None):
    """For each model by rows: microseconds of each way, and how far the plan's results are from torch's by NCCL."""
    report, good, shapes = {}, True, {}
    for name in MODELS:
        try:
            shapes[name] = share(name, side.group.size)
        except ValueError as error:
            report.setdefault("left out", []).append(str(error))
    for kind in options.kinds:
        for rows in options.model_rows:
            for name, model in shapes.items():
                if any_late(until, process_group):
                    report["stopped"] = f"{name} {kind} {rows}"
                    return good, report
                row = report[f"{name} {rows}" if kind == "bf16" else f"{name} {kind} {rows}"] = {}
                good = model_row(row, side, barrier, model, kind, rows, options.ways, process_group) and good
                if side.group.rank == 0:
                    print(name, kind, rows, json.dumps(row), flush=True)
                saved(report)
    return good and side.group.error is None, report


def model_row(row, side, barrier, model, kind, rows, wanted, process_group):
    plan, ways = ways_between(side, model, kind, rows, process_group)
    row["kernels"] = plan.kernel_count
    barrier()
    ways["sinter"]()
    torch.cuda.synchronize(side.device)
    got = [one.clone() for one in ways["sinter"].outputs]
    want = ways["nccl"]()
    row["errors"] = [error_of(one, other.cpu()) for one, other in zip(got, want)]
    # Codes of three bits that one side rounds the other way are 6 % off each.
    bound = 2e-2 if kind == "bf16" else 4e-2
    good = row["right"] = max(row["errors"]) < bound
    for way, call in ways.items():
        if wanted and way not in wanted:
            continue
        row[way] = timed(call, side.device, barrier, calls=max(4, min(CALLS, 4096 // rows)))
        if way == ASYNC and not isinstance(row[way], str):
            row["async error"] = error_of(call(), want[1].cpu())
        good = good and not (way == "sinter" and isinstance(row[way], str))
    return good
