"""The parts that check results and refusals: `right`, `local` and `refused`. Each returns whether it is as it should be, and a report."""

import json
import time

import torch
from rank_chains import COLUMNS, Side, draw, error_of, expected

SUM_ROWS = (1, 7, 64, 300, 1024)
#: Rows, columns and factors of layers. Over more than two ranks many rows are summed in two shots, with their norms.
LAYERS = ((1, 1024, 512), (33, 1024, 512), (128, 2048, 1024), (1024, 8192, 256))


def check_sum(side, bound, rows):
    """How many elements are not those that the chain says, bit by bit."""
    parts = [draw(rank, (rows, COLUMNS)).float() for rank in range(side.group.size)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    want = (total.to(torch.bfloat16).float() + draw(50 + side.group.rank, (rows, COLUMNS)).float()).to(torch.bfloat16)
    got = bound.outputs[0].cpu()
    return int((got.view(torch.int16) != want.view(torch.int16)).sum())


def form_of(explained):
    """How a plan sums, by its text, for the report."""
    schedules = [line.split()[1:] for line in explained.splitlines() if line.split()[:1] == ["schedule"]]
    forms = [words[0] for words in schedules if words[:1] in (["one-shot"], ["two-shot"])]
    pushed = any(word.startswith("pushes") for words in schedules for word in words)
    return ", ".join(["sent by the product"] * pushed + list(dict.fromkeys(forms)))


def right(side, barrier):
    report = {}
    for rows in SUM_ROWS:
        bound = side.sum(rows)
        barrier()
        for _ in range(3):
            bound()
        torch.cuda.synchronize(side.device)
        report[f"sum {rows}"] = check_sum(side, bound, rows)
    forms = {}
    for rows, columns, factors in LAYERS:
        h, norm = expected(side.group.size, rows, columns, factors)
        for choice in ("best", "unfused"):
            bound = side.layer(rows, columns, factors, choice=choice)
            barrier()
            bound()
            torch.cuda.synchronize(side.device)
            name = f"layer {rows}" if choice == "best" else f"layer {rows}, the sum sends"
            forms[name] = form_of(bound.plan.explain())
            report[name] = [error_of(bound.outputs[0], h), error_of(bound.outputs[1], norm)]
    report["ended"] = str(side.group.error)
    return are_right(report), {**report, "forms": forms}


def are_right(report):
    """No wrong elements, small errors, and a group that has not ended."""
    return all(
        value == 0 if isinstance(value, int) else value == "None" if isinstance(value, str) else max(value) < 1e-2
        for value in report.values()
    )


def refused(side, barrier):
    """The last rank has another plan: each rank gets an error at the bind. Then it never launches: the others end at the timeout, and name it."""
    import sinter

    report, last = {}, side.group.size - 1
    try:
        side.sum(5, residual=int(side.group.rank == last))
        report["other plan"] = "bound"
    except sinter.Error as error:
        report["other plan"] = error.message
    barrier()
    bound = side.sum(5)
    barrier()
    began = time.monotonic()
    if side.group.rank != last:
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
    return is_refused(report, side.group.rank, side.group.size), report


def is_refused(report, rank, size):
    """Whether a rank got the errors that the test of refusals expects."""
    good = "binds plan" in report["other plan"]
    if rank != size - 1:
        good = good and report["missed"] == size - 1 and report["seconds"] < 6 and "sent nothing" in report["launch"]
    return good


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
