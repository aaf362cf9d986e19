#!/usr/bin/env python3
"""Bytes that each contestant moves to and from DRAM, by Nsight Compute, into a results file of peers.py.

    dram.py --out FILE [--only NAMES] [--peers sinter,torch,xla] [--ncu ncu] [--limit SECONDS]

Every step that FILE has a time for is run once more, cold, in a process of its own under ncu; its row's step gets
`dram_read_bytes`, `dram_write_bytes` and `counted_kernels`, and the row `dram_bytes` (Sinter), `torch_dram_bytes` (the
faster mode) and `xla_dram_bytes`. Needs a GPU and leave to read its counters.
"""

import argparse
import os
import subprocess
import sys
import tempfile

import peers

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "bytes"))
import measure_bytes  # pylint: disable=wrong-import-position

COUNTERS = [counter for counter in measure_bytes.COUNTERS if counter[0].startswith("dram_")]


def command_of(arguments, name, step, log):
    command = [arguments.ncu, "--cache-control", "none", "--clock-control", "none", "--profile-from-start", "off",
               "--target-processes", "application-only", "--print-units", "base", "--csv", "--log-file", log,
               "--metrics", ",".join(counter for _, counter, _ in COUNTERS),
               sys.executable, os.path.join(HERE, "peers.py"), "--once", "--only", name, "--peers", step]
    return command + (["--library", arguments.library] if arguments.library else [])


def count(arguments, name, step):
    """{field: bytes} of one call, and its kernels."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "ncu.csv")
        done = subprocess.run(command_of(arguments, name, step, log), capture_output=True, text=True,
                              timeout=arguments.limit, check=False)
        text = ""
        if os.path.exists(log):
            with open(log, encoding="utf-8", errors="replace") as file:
                text = file.read()
    launches = measure_bytes.parse_launches(text, COUNTERS)
    if done.returncode != 0 or not launches:
        raise RuntimeError(f"ncu ended with {done.returncode}: {(text + done.stderr)[-300:]}")
    return measure_bytes.total(launches), len(launches)


def derive(row):
    """The row's sums from its steps'."""
    steps = row["steps"]
    moved = lambda step: (step or {}).get("dram_read_bytes", 0) + (step or {}).get("dram_write_bytes", 0) or None
    compiled = [steps[mode] for mode in peers.MODES if mode in steps]
    row["dram_bytes"], row["xla_dram_bytes"] = moved(steps.get("sinter")), moved(steps.get("xla"))
    row["torch_dram_bytes"] = moved(min(compiled, key=lambda step: step["us"], default=None))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="results file of peers.py")
    parser.add_argument("--only", default="", help="names of graphs, with commas between")
    parser.add_argument("--peers", default="sinter,torch,torch_max,xla")
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--limit", type=float, default=180, help="seconds a step may take")
    parser.add_argument("--library", default=None)
    arguments = parser.parse_args()
    results = peers.Results(arguments.out)
    only = [name for name in arguments.only.split(",") if name]
    for name, row in results.rows.items():
        for step in arguments.peers.split(","):
            if step not in row["steps"] or (only and name not in only) or "dram_read_bytes" in row["steps"][step]:
                continue
            try:
                moved, kernels = count(arguments, name, step)
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                print(f"{name} {step}: {error}", flush=True)
                continue
            row["steps"][step].update({field + "_bytes": value for field, value in moved.items()})
            row["steps"][step]["counted_kernels"] = kernels
            derive(row)
            results.write()
            print(f"{name:28} {step:10} read {moved.get('dram_read', 0) / 1e6:.2f} MB, "
                  f"write {moved.get('dram_write', 0) / 1e6:.2f} MB, {row['bytes'] / 1e6:.2f} needed, {kernels} kernels", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
