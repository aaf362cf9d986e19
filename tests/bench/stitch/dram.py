#!/usr/bin/env python3
"""Bytes that each contestant moves to and from DRAM, by Nsight Compute, into a results file of peers.py.

    dram.py --out FILE [--only NAMES] [--peers sinter,torch,xla] [--ncu ncu] [--limit SECONDS]

For each contestant one process calls, cold and under ncu, every graph that FILE has a time for; a call is a range of the
profiler. A row's step gets `dram_read_bytes` and `dram_write_bytes`, and the row `dram_bytes` (Sinter), `torch_dram_bytes`
(the faster mode) and `xla_dram_bytes`. Needs a GPU and leave to read its counters.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import results_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "bytes"))
import measure_bytes  # pylint: disable=wrong-import-position

COUNTERS = [counter for counter in measure_bytes.COUNTERS if counter[0].startswith("dram_")]


def command_of(arguments, names, step, log):
    command = [arguments.ncu, "--replay-mode", "app-range", "--cache-control", "none", "--clock-control", "none",
               "--target-processes", "application-only", "--print-units", "base", "--csv", "--log-file", log,
               "--metrics", ",".join(counter for _, counter, _ in COUNTERS),
               sys.executable, os.path.join(HERE, "peers.py"), "--once", "--only", ",".join(names), "--peers", step]
    return command + (["--library", arguments.library] if arguments.library else [])


def count(arguments, names, step):
    """{field: bytes} of one call of each graph."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "ncu.csv")
        status, said = measure_bytes.run_limited(command_of(arguments, names, step, log), arguments.limit)
        text = measure_bytes.read(log) if os.path.exists(log) else ""
    ranges = measure_bytes.parse_launches(text, COUNTERS)
    if status != 0 or len(ranges) != len(names):
        raise RuntimeError(f"ncu ended with {status}, {len(ranges)} ranges: {(text + said)[-300:]}")
    return [measure_bytes.total([one]) for one in ranges]


def derive(row):
    """The row's sums from its steps'."""
    steps = row["steps"]
    moved = lambda step: (step or {}).get("dram_read_bytes", 0) + (step or {}).get("dram_write_bytes", 0) or None
    compiled = [steps[mode] for mode in results_file.MODES if mode in steps]
    row["dram_bytes"], row["xla_dram_bytes"] = moved(steps.get("sinter")), moved(steps.get("xla"))
    row["torch_dram_bytes"] = moved(min(compiled, key=lambda step: step["us"], default=None))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="results file of peers.py")
    parser.add_argument("--only", default="", help="names of graphs, with commas between")
    parser.add_argument("--peers", default="sinter,torch,torch_max,xla")
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--limit", type=float, default=300, help="seconds a contestant may take")
    parser.add_argument("--library", default=None)
    arguments = parser.parse_args()
    results = results_file.Results(arguments.out)
    only = [name for name in arguments.only.split(",") if name]
    for step in arguments.peers.split(","):
        names = [name for name, row in results.rows.items()
                 if step in row["steps"] and "dram_read_bytes" not in row["steps"][step] and (not only or name in only)]
        try:
            counted = count(arguments, names, step) if names else []
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            print(f"{step}: {error}", flush=True)
            continue
        for name, moved in zip(names, counted):
            row = results.rows[name]
            row["steps"][step].update({field + "_bytes": value for field, value in moved.items()})
            derive(row)
            print(f"{name:28} {step:10} read {moved.get('dram_read', 0) / 1e6:.2f} MB, "
                  f"write {moved.get('dram_write', 0) / 1e6:.2f} MB, {row['bytes'] / 1e6:.2f} needed", flush=True)
        results.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
