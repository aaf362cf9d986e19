#!/usr/bin/env python3
"""Chains over several GPUs of one host: right on all ranks, and their times compared with torch's.

    PYTHONPATH=bindings/python LIBSINTER_PATH=... python3 tests/bench/ranks/ranks.py OUT.json [--ranks 4] [--rows 1,16,..] [--seconds N]

Parts, each of a process a rank but `local`: `right`, which is always checked: sums bit by bit, and a product with its sum, residual and norm
against float64; `local`: the same by one process with a context a rank; `refused`: a rank with another plan, and one that
never launches; `times`: microseconds of a call in CUDA graphs of 50; `models`: the same of what lies between two
attentions of a model split over the GPUs, with products of bf16 and of e4m3. Exits 1 where a part fails, 77 where there are fewer GPUs
than ranks. Needs GPUs that reach each other, torch 2.5 or newer, NVRTC. README.md has the commands for a machine with four GPUs.
"""

import argparse
import datetime
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import rows_file  # noqa: E402
import shares  # noqa: E402
import source_state  # noqa: E402

PARTS = ("right", "local", "refused", "times", "models")
LOCAL_SECONDS, SPARE_SECONDS = 90, 120  # that `local` may take; that ranks may take beyond --seconds
SKIPPED = 77


def parse(arguments):
    def numbers(text):
        found = [int(one) for one in text.split(",")]
        if min(found) < 1:
            raise ValueError
        return found

    def names(of):
        def read(text):
            for name in text.split(","):
                if name not in of:
                    raise argparse.ArgumentTypeError(f"{name!r} is not one of {' '.join(of)}")
            return text.split(",")

        return read

    rows = [1, 16, 64, 128, 256, 1024, 4096]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--ranks", type=shares.number_of_ranks, default=2, help="GPUs that chains are split over, 2 to 8; two unless given")
    parser.add_argument("--rows", type=numbers, default=rows, help="of sums")
    parser.add_argument("--model-rows", type=numbers, default=rows)
    parser.add_argument("--kinds", type=names(("bf16", "e4m3")), default=["bf16", "e4m3"], help="of models' products")
    parser.add_argument("--ways", type=names(("sinter", *shares.SUMS, shares.ASYNC)), default=[], help="that are timed of models; all unless given")
    parser.add_argument("--multicast", action="store_true", help="lets NCCL and symmetric memory use NVLink multicast; without it their multimem "
                        "kernels are left out, as on hosts whose GPUs others share")
    parser.add_argument("--slot-mib", type=int, default=0, help="of the group's slots; 0: the library's choice")
    parser.add_argument("--seconds", type=float, default=120, help="after which no further number of rows is timed")
    parser.add_argument("--parts", type=names(PARTS), default=list(PARTS))
    return parser.parse_args(arguments)


def process(rank, port, options, results):
    """One rank: all parts but `local`."""
    import rank_checks
    import rank_times
    import sinter
    import torch
    import torch.distributed as dist
    from rank_chains import Side

    size = options.ranks
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl", rank=rank, world_size=size, timeout=datetime.timedelta(seconds=60), device_id=device
    )
    barrier = lambda: dist.all_gather_object([None] * size, 0)
    context = sinter.Context(device=rank, cache_dir="")
    until, world = time.monotonic() + options.seconds, dist.group.WORLD
    report = {"gpu": torch.cuda.get_device_name(rank), "torch": torch.__version__, "slot MiB": options.slot_mib or "default", "failed": []}

    def saves(name):
        def saved(part):
            results[rank] = {**report, name: part, "failed": [*report["failed"], f"{name} did not end"]}

        return saved

    def run(name, part):
        saves(name)({})
        good, report[name] = part()
        print(f"rank {rank} {name}: {'right' if good else 'WRONG'} {json.dumps(report[name])}", flush=True)
        report["failed"] += [] if good else [name]
        results[rank] = report

    side = Side(context, sinter.Group.from_torch(context, slot_bytes=options.slot_mib << 20, timeout=60.0), device)
    run("right", lambda: rank_checks.right(side, barrier))
    if "times" in options.parts:
        run("times", lambda: rank_times.times(side, barrier, options.rows, until, world, saves("times")))
    if "models" in options.parts:
        run("models", lambda: rank_times.models(side, barrier, options, until, world, saves("models")))
    torch.cuda.synchronize(device)
    side.group.close()
    if "refused" in options.parts:
        short = Side(context, sinter.Group.from_torch(context, timeout=2.0), device)
        run("refused", lambda: rank_checks.refused(short, barrier))
    dist.destroy_process_group()


def run_local(size, results):
    import rank_checks

    good, report = rank_checks.local(size)
    results["local"] = {"failed": [] if good else ["local"], "local": report}


def told_by_local(spawn, size, results):
    """Runs `local` in a process of its own; what failed."""
    alone = spawn.Process(target=run_local, args=(size, results))
    alone.start()
    alone.join(LOCAL_SECONDS)
    if alone.is_alive():
        alone.kill()
        return [f"local: not ended after {LOCAL_SECONDS} s"]
    if alone.exitcode != 0 or "local" not in results:
        return [f"local: ended with {alone.exitcode}, and told {'something' if 'local' in results else 'nothing'}"]
    return []


def told_by_ranks(spawn, options, results):
    """Runs a process a rank; what failed besides their parts."""
    port = 20000 + os.getpid() % 20000
    ranks = [spawn.Process(target=process, args=(rank, port, options, results)) for rank in range(options.ranks)]
    for one in ranks:
        one.start()
    end, failed = time.monotonic() + options.seconds + SPARE_SECONDS, []
    for rank, one in enumerate(ranks):
        one.join(max(0, end - time.monotonic()))
        if one.is_alive():
            one.kill()
            failed.append(f"rank {rank} did not end")
    return failed + [f"rank {rank} told nothing" for rank in range(options.ranks) if rank not in results]


def document_of(options, state, results, failed):
    """The results file: the reports of all ranks and of `local`, which `results` holds, and what failed in addition to their parts."""
    told = [{"rank": rank, **results[rank]} for rank in range(options.ranks) if rank in results]
    return {**state, "number of ranks": options.ranks, "multicast": options.multicast, "failed": failed, "local": results.get("local"), "ranks": told}


def main(arguments):
    options = parse(arguments)
    import torch
    import torch.multiprocessing as mp

    if not options.multicast:
        import rank_peers

        rank_peers.leave_out_multicast()
    there = torch.cuda.device_count()
    if there < options.ranks:
        print(f"ranks: --ranks {options.ranks} needs as many GPUs, {there} are here")
        return SKIPPED
    spawn = mp.get_context("spawn")
    with spawn.Manager() as manager:
        results = manager.dict()
        failed = told_by_local(spawn, options.ranks, results) if "local" in options.parts else []
        failed += told_by_ranks(spawn, options, results)
        document = document_of(options, source_state.of_library(), dict(results), failed)
    rows_file.write(options.out, document)
    failed = failed + [part for one in [document["local"] or {}, *document["ranks"]] for part in one.get("failed", [])]
    print("failed: " + ", ".join(failed) if failed else "all right", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
